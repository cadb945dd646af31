//! `x` if not negative, else `alpha x`.
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameter as `p`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<LeakyRelu>();

struct LeakyRelu;

impl Unary for LeakyRelu {
    const NAME: &'static str = "LeakyRelu";
    const PARAMS: &'static [Param] = &[real("alpha", 0.01)];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [alpha, _]| if x < 0.0 { alpha * x } else { x };
    const OPENCL: &'static str = "x < 0.0f ? p * x : x";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [alpha, _]: [f32; 2]) -> S::F {
        s.select(s.lt(x, s.splat(0.0)), s.mul(s.splat(alpha), x), x)
    }
}
