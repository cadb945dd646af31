//! The mean along some axes. Integer means truncate.

use crate::Def;
use crate::family::reduce::{Reduce, Sum, reduce};
use crate::number::Number;

pub(crate) const DEF: Def = reduce::<ReduceMean>();

pub(super) struct ReduceMean;

impl Reduce for ReduceMean {
    const NAME: &'static str = "ReduceMean";
    type By = Sum;
    const OPENCL_END: &'static str = "y / count";
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().sum::<f64>() / x.len() as f64;

    fn end<T: Number>(y: T, count: usize) -> T {
        y.div(T::from_f64(count as f64))
    }
}
