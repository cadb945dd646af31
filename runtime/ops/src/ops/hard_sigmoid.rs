//! `clamp(alpha x + beta, 0, 1)` of each element.
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameters as `p` and `q`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<HardSigmoid>();

struct HardSigmoid;

impl Unary for HardSigmoid {
    const NAME: &'static str = "HardSigmoid";
    const PARAMS: &'static [Param] = &[real("alpha", 0.2), real("beta", 0.5)];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [alpha, beta]| (alpha * x + beta).clamp(0.0, 1.0);
    // OpenCL leaves `clamp` and `fmin` of NaN undefined, so the bounds are compared explicitly.
    const OPENCL: &'static str = "p * x + q <= 0.0f ? 0.0f : p * x + q >= 1.0f ? 1.0f : p * x + q";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [alpha, beta]: [f32; 2]) -> S::F {
        let y = s.fma(s.splat(alpha), x, s.splat(beta));
        s.min(s.splat(1.0), s.max(s.splat(0.0), y))
    }
}
