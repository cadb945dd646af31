//! Each element to the power of the other operand's, with broadcasting. The exponent may have a type of its own.

use crate::Def;
use crate::family::elementwise::{Binary, Mixed, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Pow>();

struct Pow;

impl Binary for Pow {
    const NAME: &'static str = "Pow";
    const OPENCL: &'static str = "pow(a, b)";
    const F64: fn(f64, f64) -> f64 = f64::powf;
    const MIXED: Option<Mixed> = Some(Mixed::of::<Self>());

    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.pow(b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn integers_wrap_and_lose_their_fraction() {
        let a = tensor(&[4], &[3i32, 2, -1, 1 << 16]);
        let run = bench("Pow").input(a).input(tensor(&[4], &[2i32, -1, -3, 2]));
        assert_eq!(run.one().values::<i32>(), [9, 0, -1, 0]);
    }

    #[test]
    fn exponents_may_have_a_type_of_their_own() {
        let a = tensor(&[3], &[4f32, 2.0, 1.0]);
        let y = bench("Pow").input(a).input(tensor(&[3], &[2u8, 10, 255])).one();
        assert_eq!(y.values::<f32>(), [16.0, 1024.0, 1.0]);
        let y = bench("Pow").input(tensor(&[2], &[9i64, 2])).input(tensor(&[], &[0.5f32])).one();
        assert_eq!(y.values::<i64>(), [3, 1]);
    }
}
