//! An operator whose output is bounded.

use udo_api::types::F32;
use udo_api::{
    Core, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema, Port,
    Shape, any_input, any_output,
};

/// The positive elements of its input: as many as there are.
#[derive(Debug)]
pub struct Positive;

impl Op for Positive {
    const SCHEMA: OpSchema =
        OpSchema::new("Positive", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x.with_shape(Shape::from_dims(&[Dim::UpTo(x.len())])?))
    }
}

/// Its kernel for the CPU.
#[derive(Debug)]
pub struct PositiveF32;

impl PositiveF32 {
    /// The list of a package.
    pub const DEF: KernelDef = KernelDef::new::<Self>("Positive", Core::CPU)
        .ports(&[any_input(0).bounded(), any_output(0).bounded()]);
}

impl Kernel for PositiveF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let y = outputs.take::<f32>(0)?;
        let mut count = 0;
        for (y, x) in y.iter_mut().zip(inputs.get::<f32>(0)?.iter().filter(|x| **x > 0.0)) {
            *y = *x;
            count += 1;
        }
        outputs.set_shape(0, &[count])
    }
}
