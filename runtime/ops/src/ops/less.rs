//! Whether each element is less than the other operand's, with broadcasting. A NaN is not.

use crate::Def;
use crate::family::elementwise::{Compare, compare};
use crate::number::Number;

pub(crate) const DEF: Def = compare::<Less>();

struct Less;

impl Compare for Less {
    const NAME: &'static str = "Less";
    const OPENCL: &'static str = "a < b";

    #[inline]
    fn of<T: Number>(a: T, b: T) -> bool {
        a < b
    }
}
