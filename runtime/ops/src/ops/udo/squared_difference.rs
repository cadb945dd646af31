//! `(a - b)^2` for each pair of elements, with broadcasting. Integers wrap.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<SquaredDifference>();

struct SquaredDifference;

impl Binary for SquaredDifference {
    const NAME: &'static str = "SquaredDifference";
    const OPENCL: Option<&'static str> = Some("(a - b) * (a - b)");
}

impl Pairs for SquaredDifference {
    const F64: fn(f64, f64) -> f64 = |a, b| (a - b) * (a - b);

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        let difference = a.sub(b);
        difference.mul(difference)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        let difference = s.sub(a, b);
        s.mul(difference, difference)
    }
}
