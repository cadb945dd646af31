//! `-x` of each element. The smallest integer of a signed type wraps to itself.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have. Integers use `INT`. `WITHIN` is the
//! relative error that tests allow `lanes`.

use udo_api::{TypeSet, types};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Neg>();

struct Neg;

impl Unary for Neg {
    const NAME: &'static str = "Neg";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| -x;
    const INTS: TypeSet = types::SIGNED;
    const INT: fn(i128, [f64; 2]) -> i128 = |x, _| -x;
    const OPENCL: &'static str = "-x";
    const WITHIN: f64 = 0.0;

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.neg(x)
    }
}
