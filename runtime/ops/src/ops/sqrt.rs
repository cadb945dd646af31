//! The square root of each element; NaN for negative ones.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Sqrt>();

struct Sqrt;

impl Unary for Sqrt {
    const NAME: &'static str = "Sqrt";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x.sqrt();
    const OPENCL: &'static str = "sqrt(x)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.sqrt(x)
    }
}
