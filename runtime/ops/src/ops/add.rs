//! Sum of two tensors, with broadcasting. Integers wrap.

use crate::Def;
use crate::family::elementwise::{Binary, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Add>();

struct Add;

impl Binary for Add {
    const NAME: &'static str = "Add";
    const OPENCL: &'static str = "a + b";
    const F64: fn(f64, f64) -> f64 = |a, b| a + b;

    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.add(b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn integers_wrap() {
        let run = bench("Add").input(tensor(&[2], &[250u8, 1])).input(tensor(&[2], &[10u8, 2]));
        assert_eq!(run.one().values::<u8>(), [4, 3]);
        let run = bench("Add").input(tensor(&[1], &[i64::MAX])).input(tensor(&[1], &[1i64]));
        assert_eq!(run.one().values::<i64>(), [i64::MIN]);
    }
}
