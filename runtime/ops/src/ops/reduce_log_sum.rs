//! The logarithm of the sum along some axes.
//!
//! `reduce` builds the operator: `By` accumulates the elements, `end` turns the accumulated value into the output,
//! `OPENCL_END` does so on the GPU, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Reduce, Sum, reduce};
use crate::number::Number;

pub(crate) const DEF: Def = reduce::<ReduceLogSum>();

struct ReduceLogSum;

impl Reduce for ReduceLogSum {
    const NAME: &'static str = "ReduceLogSum";
    type By = Sum;
    const OPENCL_END: &'static str = "log(y)";
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().sum::<f64>().ln();

    fn end<T: Number>(y: T, _count: usize) -> T {
        T::from_f64(y.to_f64().ln())
    }
}
