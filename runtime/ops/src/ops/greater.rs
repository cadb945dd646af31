//! Whether each element is greater than the other operand's, with broadcasting. A NaN is not.

use crate::Def;
use crate::family::elementwise::{Compare, compare};
use crate::number::Number;

pub(crate) const DEF: Def = compare::<Greater>();

struct Greater;

impl Compare for Greater {
    const NAME: &'static str = "Greater";
    const OPENCL: &'static str = "a > b";

    #[inline]
    fn of<T: Number>(a: T, b: T) -> bool {
        a > b
    }
}
