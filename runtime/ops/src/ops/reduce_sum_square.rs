//! The sum of squares along some axes. Integers wrap.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Reduce, SumOfSquares, reduce};

pub(crate) const DEF: Def = reduce::<ReduceSumSquare>();

struct ReduceSumSquare;

impl Reduce for ReduceSumSquare {
    const NAME: &'static str = "ReduceSumSquare";
    type By = SumOfSquares;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x * x).sum();
}
