//! `!x` for each bool.
//!
//! `predicate` builds the operator from `holds`, which gets each element as `f64`.

use udo_api::{TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Predicate, predicate};

pub(crate) const DEF: Def = predicate::<Not>();

struct Not;

impl Predicate for Not {
    const NAME: &'static str = "Not";
    const TYPES: TypeSet = types::BOOL;
    const OPENCL: &'static str = "x == 0.0f";

    fn holds(x: f64, _: [bool; 2]) -> bool {
        x == 0.0
    }
}
