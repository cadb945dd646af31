//! Rounds each element to the nearest multiple of a step, ties to even, as quantizing and dequantizing does, but
//! without saturation.
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameter as `p`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<RoundTo>();

/// 2^23: an `f32` of this size or larger has no fraction.
const WHOLE: f32 = 8_388_608.0;

struct RoundTo;

impl Unary for RoundTo {
    const NAME: &'static str = "RoundTo";
    const PARAMS: &'static [Param] = &[real("step", 1.0)];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [step, _]| (x / step).round_ties_even() * step;
    const OPENCL: &'static str = "fabs(x / p) < 8388608.0f ? rint(x / p) * p : x";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [step, _]: [f32; 2]) -> S::F {
        let step = s.splat(step);
        let steps = s.div(x, step);
        let has_fraction = s.lt(s.abs(steps), s.splat(WHOLE));
        s.select(has_fraction, s.mul(s.round(steps), step), x)
    }
}
