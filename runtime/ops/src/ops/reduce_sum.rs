//! The sum along some axes. Integers wrap.

use crate::Def;
use crate::family::reduce::{Reduce, Sum, reduce};

pub(crate) const DEF: Def = reduce::<ReduceSum>();

struct ReduceSum;

impl Reduce for ReduceSum {
    const NAME: &'static str = "ReduceSum";
    type By = Sum;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().sum();
}
