//! Cumulative products along an axis.
//!
//! `cumulative` builds the operator: `next` computes each value from the one before it, and `FIRST` is the value
//! before the first element.

use crate::Def;
use crate::family::cumulative::{Cumulative, cumulative};
use crate::number::Number;

pub(crate) const DEF: Def = cumulative::<CumProd>();

struct CumProd;

impl Cumulative for CumProd {
    const NAME: &'static str = "CumProd";
    const FIRST: f64 = 1.0;
    const OPENCL: &'static str = "so_far * x";

    fn next<T: Number>(so_far: T, x: T) -> T {
        so_far.mul(x)
    }
}
