//! The sum of absolute values along some axes.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Reduce, SumOfSizes, reduce};

pub(crate) const DEF: Def = reduce::<ReduceL1>();

struct ReduceL1;

impl Reduce for ReduceL1 {
    const NAME: &'static str = "ReduceL1";
    type By = SumOfSizes;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x.abs()).sum();
}
