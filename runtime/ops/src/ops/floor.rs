//! Rounds each element down to the next whole number.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have. `WITHIN` is the relative error that tests
//! allow `lanes`.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Floor>();

struct Floor;

impl Unary for Floor {
    const NAME: &'static str = "Floor";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x.floor();
    const OPENCL: &'static str = "floor(x)";
    const WITHIN: f64 = 0.0;

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.floor(x)
    }
}
