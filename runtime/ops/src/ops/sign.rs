//! 1 for positive elements, -1 for negative ones; zeros and NaN stay.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have. Integers use `INT`. `WITHIN` is the
//! relative error that tests allow `lanes`.

use udo_api::{TypeSet, types};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Sign>();

struct Sign;

impl Unary for Sign {
    const NAME: &'static str = "Sign";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| match x {
        x if x > 0.0 => 1.0,
        x if x < 0.0 => -1.0,
        x => x,
    };
    const INTS: TypeSet = types::INTS;
    const INT: fn(i128, [f64; 2]) -> i128 = |x, _| x.signum();
    const OPENCL: &'static str = "x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x";
    const WITHIN: f64 = 0.0;

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        let negated = s.select(s.lt(x, s.splat(0.0)), s.splat(-1.0), x);
        s.select(s.lt(s.splat(0.0), x), s.splat(1.0), negated)
    }
}
