//! The inverse tangent of each element, in radians.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Atan>();

struct Atan;

impl Unary for Atan {
    const NAME: &'static str = "Atan";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x.atan();
    const OPENCL: &'static str = "atan(x)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.atan(x)
    }
}
