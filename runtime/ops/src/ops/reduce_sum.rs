//! The sum along some axes. Integers wrap.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Reduce, Sum, reduce};

pub(crate) const DEF: Def = reduce::<ReduceSum>();

struct ReduceSum;

impl Reduce for ReduceSum {
    const NAME: &'static str = "ReduceSum";
    type By = Sum;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().sum();
}
