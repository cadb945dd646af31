//! `x * clamp(x / 6 + 1/2, 0, 1)` of each element.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<HardSwish>();

struct HardSwish;

impl Unary for HardSwish {
    const NAME: &'static str = "HardSwish";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x * (x / 6.0 + 0.5).clamp(0.0, 1.0);
    const OPENCL: &'static str = "x * clamp(x / 6.0f + 0.5f, 0.0f, 1.0f)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        let gate = s.fma(x, s.splat(1.0 / 6.0), s.splat(0.5));
        s.mul(x, s.min(s.splat(1.0), s.max(s.splat(0.0), gate)))
    }
}
