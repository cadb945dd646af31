//! The product along some axes. Integers wrap.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Product, Reduce, reduce};

pub(crate) const DEF: Def = reduce::<ReduceProd>();

struct ReduceProd;

impl Reduce for ReduceProd {
    const NAME: &'static str = "ReduceProd";
    type By = Product;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().product();
}
