//! The minimum along some axes. NaN counts as smaller than any value.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Least, Reduce, reduce};

pub(crate) const DEF: Def = reduce::<ReduceMin>();

struct ReduceMin;

impl Reduce for ReduceMin {
    const NAME: &'static str = "ReduceMin";
    type By = Least;
    // `f64::min` ignores NaN; the family tests NaN separately.
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().copied().fold(f64::INFINITY, f64::min);
}
