//! The minimum along some axes. NaN counts as smaller than any value.

use crate::Def;
use crate::family::reduce::{Least, Reduce, reduce};

pub(crate) const DEF: Def = reduce::<ReduceMin>();

struct ReduceMin;

impl Reduce for ReduceMin {
    const NAME: &'static str = "ReduceMin";
    type By = Least;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().copied().fold(f64::INFINITY, f64::min);
}
