//! The index of the smallest element along an axis.
//!
//! `extreme` builds the operator from `wins`, which decides whether an element replaces the best one so far. Ties go
//! to the first, or with `select_last_index` to the last. `TEST` is the reference of tests.

use crate::Def;
use crate::family::select::Ranked;
use crate::family::select::{Extreme, extreme};

pub(crate) const DEF: Def = extreme::<ArgMin>();

struct ArgMin;

impl Extreme for ArgMin {
    const NAME: &'static str = "ArgMin";
    const TEST: fn(&[f64]) -> usize =
        |x| (0..x.len()).fold(0, |best, i| if x[i] < x[best] { i } else { best });
    const OPENCL: &'static str = "x < best";

    fn wins<T: Ranked>(x: T, best: T) -> bool {
        x.below(best)
    }
}
