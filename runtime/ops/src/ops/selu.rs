//! `gamma x` if positive, else `gamma alpha (exp(x) - 1)` (Klambauer et al., 2017,
//! <https://arxiv.org/abs/1706.02515>).
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameters as `p` and `q`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<Selu>();

struct Selu;

impl Unary for Selu {
    const NAME: &'static str = "Selu";
    const PARAMS: &'static [Param] = &[real("alpha", 1.673_263_2), real("gamma", 1.050_701)];
    const F64: fn(f64, [f64; 2]) -> f64 =
        |x, [alpha, gamma]| gamma * if x < 0.0 { alpha * x.exp_m1() } else { x };
    const OPENCL: &'static str = "q * (x < 0.0f ? p * expm1(x) : x)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [alpha, gamma]: [f32; 2]) -> S::F {
        let negative = s.mul(s.splat(alpha), s.expm1(x));
        s.mul(s.splat(gamma), s.select(s.lt(x, s.splat(0.0)), negative, x))
    }
}
