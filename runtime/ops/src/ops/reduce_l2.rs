//! The square root of the sum of squares along some axes.
//!
//! `reduce` builds the operator: `By` accumulates the elements, `end` turns the accumulated value into the output,
//! `OPENCL_END` does so on the GPU, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Reduce, SumOfSquares, reduce};
use crate::number::Number;

pub(crate) const DEF: Def = reduce::<ReduceL2>();

struct ReduceL2;

impl Reduce for ReduceL2 {
    const NAME: &'static str = "ReduceL2";
    type By = SumOfSquares;
    const OPENCL_END: &'static str = "sqrt(y)";
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x * x).sum::<f64>().sqrt();

    fn end<T: Number>(y: T, _count: usize) -> T {
        T::from_f64(y.to_f64().sqrt())
    }
}
