//! The inverse hyperbolic tangent of each element.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Atanh>();

struct Atanh;

impl Unary for Atanh {
    const NAME: &'static str = "Atanh";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x.atanh();
    const OPENCL: &'static str = "atanh(x)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.atanh(x)
    }
}
