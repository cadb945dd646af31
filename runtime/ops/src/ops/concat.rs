//! Tensors one after the other along an axis.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, OpSchema,
    Param, Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::movement::{
    Example, Movement, Setting, Stripped, Strips, joined, kernel, movement,
};

pub(crate) const DEF: Def = movement::<Concat>();

struct Concat(Strips);

impl Movement for Concat {
    const SCHEMA: OpSchema = OpSchema::new(
        "Concat",
        &[Port::required("inputs", types::ANY).repeated()],
        &[Port::required("concat_result", types::ANY)],
        &[Param::scalar("axis", DType::I64)],
    )
    .facts(Facts::CONCAT);
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU), joined::<Self>("Concat")];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 1], &[2, 2], &[2, 1]],
            params: &[("axis", Setting::Int(-1))],
            outputs: &[(&[2, 4], &[0, 2, 3, 6, 1, 4, 5, 7])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 2], &[2, 2]],
            params: &[("axis", Setting::Int(0))],
            outputs: &[(&[3, 2], &[0, 1, 2, 3, 4, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 0], &[3, 0]],
            params: &[("axis", Setting::Int(1))],
            outputs: &[(&[3, 0], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let axis = cx.axis("axis", first.rank())?;
        let mut dims: Vec<Dim> = first.full_shape().iter().collect();
        for index in 1..cx.input_count() {
            let next = cx.input(index)?;
            let fits = next.dtype() == first.dtype() && next.rank() == first.rank();
            for (at, (dim, other)) in dims.iter_mut().zip(next.full_shape().iter()).enumerate() {
                *dim = match (*dim, other) {
                    (a, b) if at == axis => a.with_both(b, a.bound().saturating_add(b.bound())),
                    (a, b) if fits && a.bound() == b.bound() => a,
                    _ => return Err(misfit(index, &next, &first, axis)),
                };
            }
            if !fits {
                return Err(misfit(index, &next, &first, axis));
            }
        }
        let shape = Shape::of_dims(&dims)?;
        cx.set_output(0, first.dtype().map_or(first, |t| first.with_dtype(t)).with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Self::strips(cx).map(Self)
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        self.0.join(parallel, outputs.take_bits::<B>(0)?, |index| inputs.get_bits(index))
    }
}

impl Stripped for Concat {
    fn strips(cx: &FinalizeCx<'_>) -> Result<Strips, Error> {
        let y = cx.output(0)?;
        let parts = (0..cx.input_count()).map(|index| cx.input(index));
        Strips::along(cx.axis("axis", y.rank())?, &y, parts)
    }
}

fn misfit(index: usize, found: &TensorDesc, first: &TensorDesc, axis: usize) -> Error {
    Error::new(format!("input {index} is {found}, wanted {first} but for axis {axis}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn parts_must_fit() {
        let run = bench("Concat").input(tensor(&[2, 1], &[1i16, 2]));
        let error = run.input(tensor(&[3, 1], &[1i16, 2, 3])).int("axis", 1).error();
        assert_eq!(error, "input 1 is i16[3,1], wanted i16[2,1] but for axis 1");
    }
}
