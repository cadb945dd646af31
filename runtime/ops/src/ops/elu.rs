//! `x` if positive, else `alpha (exp(x) - 1)` (Clevert et al., 2015, <https://arxiv.org/abs/1511.07289>).
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameter as `p`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<Elu>();

struct Elu;

impl Unary for Elu {
    const NAME: &'static str = "Elu";
    const PARAMS: &'static [Param] = &[real("alpha", 1.0)];
    const F64: fn(f64, [f64; 2]) -> f64 =
        |x, [alpha, _]| if x < 0.0 { alpha * x.exp_m1() } else { x };
    const OPENCL: &'static str = "x < 0.0f ? p * expm1(x) : x";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [alpha, _]: [f32; 2]) -> S::F {
        s.select(s.lt(x, s.splat(0.0)), s.mul(s.splat(alpha), s.expm1(x)), x)
    }
}
