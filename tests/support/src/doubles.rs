//! Operators that double numbers: Twice, of which the DSP's kernel takes values of 8 bits, and Plain of `f32` alone.

use udo_api::types::{F32, U8};
use udo_api::{
    Core, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema, Port,
    Quant, QuantMut, Scratch, dsp_kernel, input, output,
};

/// Their schemas.
pub const OPS: &[OpDef] = &[OpDef::of::<Twice>(), OpDef::of::<Plain>()];

/// Twice on the CPU.
pub const TWICE: KernelDef =
    KernelDef::new::<Doubled>("Twice", Core::CPU).ports(&[input(0, F32), output(0, F32)]);
/// Twice on the DSP.
pub const TWICE_DSP: KernelDef =
    KernelDef::new::<TwiceDsp>("Twice", Core::DSP_V68).ports(&[input(0, U8), output(0, U8)]);
/// Plain on the CPU.
pub const PLAIN: KernelDef =
    KernelDef::new::<Doubled>("Plain", Core::CPU).ports(&[input(0, F32), output(0, F32)]);

struct Twice;

impl Op for Twice {
    const SCHEMA: OpSchema = OpSchema::new(
        "Twice",
        &[Port::required("x", F32.or(U8))],
        &[Port::required("y", F32.or(U8))],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct Plain;

impl Op for Plain {
    const SCHEMA: OpSchema =
        OpSchema::new("Plain", &[Port::required("x", F32)], &[Port::required("y", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct Doubled;

impl Kernel for Doubled {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }
}

dsp_kernel!(TwiceDsp = twice(out: [u8], in: [u8], params: {}));

#[expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "what functions of the DSP are"
)]
fn twice(out: QuantMut<'_, u8>, x: Quant<'_, u8>, _: Scratch<'_>) -> Result<(), ExecError> {
    for (y, &x_value) in out.data.iter_mut().zip(x.data) {
        *y = out.encoding.quantize(2.0 * x.encoding.dequantize(x_value));
    }
    Ok(())
}
