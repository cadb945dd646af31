//! `x` if greater than `alpha`, else 0. NaN stays NaN.
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameter as `p`. `WITHIN` is the relative error that tests allow
//! `lanes`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<ThresholdedRelu>();

struct ThresholdedRelu;

impl Unary for ThresholdedRelu {
    const NAME: &'static str = "ThresholdedRelu";
    const PARAMS: &'static [Param] = &[real("alpha", 1.0)];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [alpha, _]| if x <= alpha { 0.0 } else { x };
    const OPENCL: &'static str = "x <= p ? 0.0f : x";
    const WITHIN: f64 = 0.0;

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [alpha, _]: [f32; 2]) -> S::F {
        s.select(s.le(x, s.splat(alpha)), s.splat(0.0), x)
    }
}
