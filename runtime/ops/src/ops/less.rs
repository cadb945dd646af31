//! `a < b` for each pair of elements, with broadcasting. False if either is NaN.
//!
//! `compare` builds the operator from this predicate: `holds` compares every type but `f32`, and `lanes` one SIMD
//! vector of `f32`, with a mask of lanes as its result.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Compare, PairPredicate, compare};
use crate::number::Number;

pub(crate) const DEF: Def = compare::<Less>();

struct Less;

impl Compare for Less {
    const NAME: &'static str = "Less";
    const OPENCL: &'static str = "a < b";
}

impl PairPredicate for Less {
    #[inline]
    fn holds<T: Number>(a: T, b: T) -> bool {
        a < b
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::M {
        s.lt(a, b)
    }
}
