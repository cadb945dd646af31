//! `x * Phi(x)`, with `Phi` the normal distribution function.
//!
//! `unary` builds the operator from this function of an element: `F64` is the reference, `lanes` computes one SIMD
//! vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU kernel.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};
use crate::family::special::{gelu, gelu_lanes};

pub(crate) const DEF: Def = unary::<Gelu>();

struct Gelu;

impl Unary for Gelu {
    const NAME: &'static str = "Gelu";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| gelu(x);
    const OPENCL: &'static str = "0.5f * x * erfc(-0.70710678f * x)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        gelu_lanes(s, x)
    }
}
