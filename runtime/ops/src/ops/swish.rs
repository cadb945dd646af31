//! `x / (1 + exp(-alpha x))` of each element.
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameter as `p`.

use udo_api::Param;
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};
use crate::family::special::swish_lanes;

pub(crate) const DEF: Def = unary::<Swish>();

struct Swish;

impl Unary for Swish {
    const NAME: &'static str = "Swish";
    const PARAMS: &'static [Param] = &[real("alpha", 1.0)];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [alpha, _]| x / (1.0 + (-alpha * x).exp());
    const OPENCL: &'static str = "x / (1.0f + exp(-p * x))";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [alpha, _]: [f32; 2]) -> S::F {
        swish_lanes(s, x, alpha)
    }
}
