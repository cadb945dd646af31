//! Copies the first input. The run fails unless all elements of the second input are true.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Bool, Core, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, OpSchema, Port, input,
    output_like, types,
};

use crate::Def;
use crate::family::movement::{Example, Movement, kernel, movement};

pub(crate) const DEF: Def = movement::<Assert>();

struct Assert;

impl Movement for Assert {
    const SCHEMA: OpSchema = OpSchema::new(
        "Assert",
        &[Port::required("data", types::ANY), Port::required("condition", types::BOOL)],
        &[Port::required("output", types::ANY)],
        &[],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU).ports(&[
        input(0, types::ANY).bounded(),
        input(1, types::BOOL).bounded(),
        output_like(0, 0).bounded(),
    ])];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 2]],
            bools: &[&[true, true, true]],
            outputs: &[(&[2, 2], &[0, 1, 2, 3])],
            ..Example::NONE
        },
        Example { inputs: &[&[1]], bools: &[&[]], outputs: &[(&[1], &[0])], ..Example::NONE },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let data = cx.input(0)?;
        cx.set_output(0, data)
    }

    fn plan(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get_bits::<B>(0)?, outputs.take_bits::<B>(0)?);
        y[..x.len()].copy_from_slice(x);
        outputs.set_shape(0, inputs.shape(0)?)?;
        match inputs.get::<Bool>(1)?.iter().position(|flag| !flag.get()) {
            Some(index) => Err(ExecError::bad_value(0, index)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bool, ExecError};

    use crate::testing::{bench, tensor};

    #[test]
    fn false_conditions_fail_the_run() {
        let bools = [true, false, true].map(Bool::from);
        let run = bench("udo:Assert").input(tensor(&[2], &[1i64, 2]));
        let error = run.input(tensor(&[3], &bools)).error();
        assert_eq!(error, ExecError::bad_value(0, 1).to_string());
    }
}
