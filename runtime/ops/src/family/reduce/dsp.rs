//! Reductions of 8-bit quantized values on the DSP: elements are dequantized, reduced in f64, and quantized once.

use std::marker::PhantomData;

use udo_api::{
    Core, Encoding, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, QuantizedType,
    TypeSet, input, output_like, types,
};

use super::accumulate::Accumulate;
use super::plan::Plan;
use super::{Reduce, ReducedAxes};

pub(super) struct QuantKernel<R> {
    plan: Plan,
    /// Encodings of input and output.
    encodings: [Encoding; 2],
    /// The kernel for the element type.
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> R>,
}

impl<R: Reduce> QuantKernel<R> {
    pub(super) const DEF: KernelDef = {
        const QUANTIZED: TypeSet = types::U8.or(types::I8);
        const RULES: &[PortRule] = &[input(0, QUANTIZED), output_like(0, 0)];
        KernelDef::new::<Self>(R::NAME, Core::DSP_V68).ports(RULES)
    };
}

impl<R: Reduce> Kernel for QuantKernel<R> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        let no_encoding = |what: &str| Error::new(format!("{what} has no encoding"));
        let encodings = [
            x.encoding().ok_or_else(|| no_encoding("input 0"))?,
            y.encoding().ok_or_else(|| no_encoding("output 0"))?,
        ];
        let run = of_type!(x.dtype(), [U8 = u8, I8 = i8], T => execute::<R, T>)?;
        Ok(Self {
            plan: ReducedAxes::read(cx)?.plan(x.shape()),
            encodings,
            run,
            marker: PhantomData,
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<R: Reduce, T: QuantizedType>(
    kernel: &QuantKernel<R>,
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let QuantKernel { plan, encodings: [x_encoding, y_encoding], .. } = kernel;
    let (x, y) = (io.inputs.get::<T>(0)?, io.outputs.take::<T>(0)?);
    let (grain, count) = (plan.grain(), plan.count());
    io.parallel.chunks_mut(y, grain, |chunk, y| {
        for (position, y) in (chunk * grain..).zip(y) {
            let elements =
                plan.elements(position).map(|at| f64::from(x_encoding.dequantize(x[at])));
            let result = R::end(elements.fold(R::By::none(), R::By::take), count);
            *y = y_encoding.quantize(result as f32);
        }
        Ok(())
    })
}
