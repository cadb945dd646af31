//! `condition ? x : y` for each element, with broadcasting.
//!
//! `ternary` builds the operator from `apply`; in OpenCL, `c` is the condition.

use udo_api::Element;

use crate::Def;
use crate::family::elementwise::{Ternary, ternary};

pub(crate) const DEF: Def = ternary::<Where>();

struct Where;

impl Ternary for Where {
    const NAME: &'static str = "Where";
    const PORTS: [&'static str; 4] = ["condition", "X", "Y", "output"];
    const OPENCL: &'static str = "c ? a : b";

    #[inline]
    fn apply<T: Element>(c: bool, a: T, b: T) -> T {
        if c { a } else { b }
    }
}
