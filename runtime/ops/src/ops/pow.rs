//! `a^b` for each pair of elements, with broadcasting. The exponent may have another type.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{
    Binary, Mixed, MixedOf, Pairs, Rows, Side, binary, lane_by_lane, singles,
};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Pow>();

struct Pow;

impl Binary for Pow {
    const NAME: &'static str = "Pow";
    const PORTS: [&'static str; 3] = ["X", "Y", "Z"];
    const OPENCL: Option<&'static str> = Some("pow(a, b)");
    const MIXED: Option<MixedOf> = Some(Mixed::new::<Self>);
}

impl Pairs for Pow {
    const F64: fn(f64, f64) -> f64 = f64::powf;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        a.pow(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        lane_by_lane(s, a, b, power)
    }

    /// Handles the exponents 2, 3 and 0.5, which most models use, by multiplication and square root.
    fn singles() -> Rows<f32> {
        Rows {
            out_of_place: |a, b, y| match (a, b) {
                (Side::Each(a), Side::One(exponent)) if is_common(exponent) => {
                    y.copy_from_slice(a);
                    apply_common(y, exponent);
                }
                _ => (singles::<Self>().out_of_place)(a, b, y),
            },
            in_place: |y, b| match b {
                Side::One(exponent) if is_common(exponent) => apply_common(y, exponent),
                _ => (singles::<Self>().in_place)(y, b),
            },
        }
    }
}

/// Whether [`apply_common`] handles this exponent.
fn is_common(exponent: f32) -> bool {
    [2.0, 3.0, 0.5].contains(&exponent)
}

/// Raises each element to one of the common exponents.
fn apply_common(y: &mut [f32], exponent: f32) {
    match exponent {
        2.0 => y.iter_mut().for_each(|y| *y = power(*y, 2.0)),
        3.0 => y.iter_mut().for_each(|y| *y = power(*y, 3.0)),
        _ => y.iter_mut().for_each(|y| *y = power(*y, 0.5)),
    }
}

/// Computes one power. The exponents 2, 3 and 0.5 use the same formulas here as in [`apply_common`], so that results do
/// not depend on whether the exponent is a scalar.
#[inline]
fn power(x: f32, exponent: f32) -> f32 {
    match exponent {
        2.0 => x * x,
        3.0 => x * x * x,
        // `powf` gives 0 for -0 and infinity for -infinity; a plain square root would give -0 and NaN.
        0.5 if x != f32::NEG_INFINITY => (x + 0.0).sqrt(),
        0.5 => f32::INFINITY,
        _ => x.powf(exponent),
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::{assert_rounded, bits};
    use crate::testing::{bench, tensor};

    #[test]
    fn integers_wrap_and_truncate() {
        let a = tensor(&[4], &[3i32, 2, -1, 1 << 16]);
        let run = bench("Pow").input(a).input(tensor(&[4], &[2i32, -1, -3, 2]));
        assert_eq!(run.one().values::<i32>(), [9, 0, -1, 0]);
    }

    #[test]
    fn common_exponents_match_their_formula_at_every_position() {
        let x = [0.3f32, -1.7, 1e20, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-30, 7.0];
        for exponent in [2.0f32, 3.0, 0.5] {
            let by_scalar =
                bench("Pow").input(tensor(&[8], &x)).input(tensor(&[], &[exponent])).one();
            let exponents = tensor(&[8], &[exponent; 8]);
            let by_tensor = bench("Pow").input(tensor(&[8], &x)).input(exponents).one();
            let [by_scalar, by_tensor] = [by_scalar, by_tensor].map(|y| bits(&y.values()));
            assert_eq!(by_scalar, by_tensor, "exponent {exponent}");
            let expected = x.map(|x| f64::from(x).powf(exponent.into()));
            for (y, expected) in by_scalar.into_iter().zip(expected) {
                assert_rounded(f32::from_bits(y), expected, 2e-7, "a power");
            }
        }
    }

    #[test]
    fn exponents_may_have_another_type() {
        let a = tensor(&[3], &[4f32, 2.0, 1.0]);
        let y = bench("Pow").input(a).input(tensor(&[3], &[2u8, 10, 255])).one();
        assert_eq!(y.values::<f32>(), [16.0, 1024.0, 1.0]);
        let y = bench("Pow").input(tensor(&[2], &[9i64, 2])).input(tensor(&[], &[0.5f32])).one();
        assert_eq!(y.values::<i64>(), [3, 1]);
    }
}
