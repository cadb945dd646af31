//! The quotient of two tensors, with broadcasting. Integer division truncates, and division by 0 gives 0.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Div>();

struct Div;

impl Binary for Div {
    const NAME: &'static str = "Div";
    const OPENCL: Option<&'static str> = Some("a / b");
}

impl Pairs for Div {
    const F64: fn(f64, f64) -> f64 = |a, b| a / b;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        a.div(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.div(a, b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn integer_division_truncates_and_division_by_zero_gives_zero() {
        let a = tensor(&[4], &[7i8, -7, -128, 5]);
        let run = bench("Div").input(a).input(tensor(&[4], &[2i8, 2, -1, 0]));
        assert_eq!(run.one().values::<i8>(), [3, -3, -128, 0]);
        let run = bench("Div").input(tensor(&[1], &[1f64])).input(tensor(&[2], &[0f64, -4.0]));
        assert_eq!(run.one().values::<f64>(), [f64::INFINITY, -0.25]);
    }
}
