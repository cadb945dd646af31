//! What a kernel of the GPU does to its sums before it stores them, for nodes behind.

use udo_api::{AcceptCx, Buffers, Error, ExecError, GpuArg};
use udo_simd::gemm_f32::Activation;

use crate::family::epilogue::{Fused, Takes};
use crate::family::special::gelu;

/// A bias, a residual and an activation, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish(Fused);

/// The function that a source calls for each result, `x`: place `at` of the output, whose bias is place `channel`. A NaN stays.
/// Needs the build options of [`Finish::options`].
pub(crate) const FINISH: &str = "
float udo_finish(float x, __global const UDO_STORAGE *bias, const int channel,
    __global const UDO_STORAGE *residual, const int at, const float low, const float high) {
#if FINISH_BIAS
    x += UDO_LOAD(bias, channel);
#endif
#if FINISH_RESIDUAL
    x += UDO_LOAD(residual, at);
#endif
#if FINISH_BY == 1
    return x < low ? low : x > high ? high : x;
#elif FINISH_BY == 2
    return x / (1.0f + exp(-x));
#elif FINISH_BY == 3
    return 0.5f * x * erfc(-0.70710678f * x);
#else
    return x;
#endif
}
";

/// The parameters that [`Finish::args`] are for.
pub(crate) const PARAMS: &str = "__global const UDO_STORAGE *finish_bias,
    __global const UDO_STORAGE *residual, const float low, const float high";

impl Finish {
    /// How many steps of the epilogue a kernel does whose channels lie along `axis` of its output.
    pub(crate) fn accept(cx: &AcceptCx<'_>, axis: usize) -> Result<usize, Error> {
        Ok(Self::leading(cx, axis)?.0)
    }

    /// The steps that it took.
    pub(crate) fn of(cx: &AcceptCx<'_>, axis: usize) -> Result<Self, Error> {
        Ok(Self::leading(cx, axis)?.1)
    }

    fn leading(cx: &AcceptCx<'_>, axis: usize) -> Result<(usize, Self), Error> {
        let takes = Takes { bias: Some(axis), residual: true, quantized: false };
        let (count, fused) = takes.leading(cx.epilogue());
        let dtype = cx.output(0)?.dtype();
        // One source reads all of them as one type.
        for port in [fused.bias, fused.residual].into_iter().flatten() {
            if cx.input(port)?.dtype() != dtype {
                return Ok((0, Self(Fused::default())));
            }
        }
        Ok((count, Self(fused)))
    }

    /// The build options of [`FINISH`].
    pub(crate) fn options(&self) -> String {
        let Fused { bias, residual, activation, .. } = self.0;
        let by = match activation {
            Activation::None => 0,
            Activation::Relu | Activation::Relu6 | Activation::Clamp(..) => 1,
            Activation::Silu => 2,
            Activation::Gelu => 3,
        };
        let [bias, residual] = [bias, residual].map(|port| u8::from(port.is_some()));
        format!("-DFINISH_BIAS={bias} -DFINISH_RESIDUAL={residual} -DFINISH_BY={by}")
    }

    /// What is left of a number at least and at most.
    fn limits(&self) -> [f32; 2] {
        match self.0.activation {
            Activation::Relu => [0.0, f32::INFINITY],
            Activation::Relu6 => [0.0, 6.0],
            Activation::Clamp(low, high) => [low, high],
            Activation::None | Activation::Silu | Activation::Gelu => [0.0; 2],
        }
    }

    /// The arguments of [`PARAMS`]. What is left out is a port that nobody reads.
    pub(crate) fn args(&self) -> [GpuArg; 4] {
        let port = |port: Option<usize>| GpuArg::input(port.unwrap_or(0) as u32);
        let [low, high] = self.limits();
        [port(self.0.bias), port(self.0.residual), GpuArg::f32(low), GpuArg::f32(high)]
    }

    /// What is stored at place `at` of the output in the place of `x`.
    pub(crate) fn apply(
        &self,
        buffers: &Buffers<'_>,
        mut x: f32,
        channel: usize,
        at: usize,
    ) -> Result<f32, ExecError> {
        if let Some(port) = self.0.bias {
            x += buffers.load(port, channel)?;
        }
        if let Some(port) = self.0.residual {
            x += buffers.load(port, at)?;
        }
        let [low, high] = self.limits();
        Ok(match self.0.activation {
            Activation::None => x,
            Activation::Relu | Activation::Relu6 | Activation::Clamp(..) => match x {
                x if x < low => low,
                x if x > high => high,
                x => x,
            },
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => gelu(x.into()) as f32,
        })
    }
}
