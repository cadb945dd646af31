//! True for each element that is NaN.
//!
//! `predicate` builds the operator from `holds`, which gets each element as `f64`.

use udo_api::{TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Predicate, predicate};

pub(crate) const DEF: Def = predicate::<IsNaN>();

struct IsNaN;

impl Predicate for IsNaN {
    const NAME: &'static str = "IsNaN";
    const TYPES: TypeSet = types::FLOATS;
    const OPENCL: &'static str = "isnan(x)";

    fn holds(x: f64, _: [bool; 2]) -> bool {
        x.is_nan()
    }
}
