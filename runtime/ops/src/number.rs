//! Arithmetic on element types, and macros that turn a type code into a Rust type.

use udo_api::{Bf16, Bool, DType, Element, Error, F16};

/// An element type with arithmetic. Integers wrap.
pub(crate) trait Number: Element + PartialOrd {
    const ZERO: Self;
    /// The lowest value; negative infinity for floats.
    const LOWEST: Self;
    /// The highest value; infinity for floats.
    const HIGHEST: Self;
    /// Converts from f64. Integers truncate and saturate.
    fn from_f64(number: f64) -> Self;
    /// Returns the nearest f64.
    fn to_f64(self) -> f64;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Divides. Integer division truncates, and division by 0 gives 0.
    fn div(self, other: Self) -> Self;
    /// Returns the remainder of truncated division; 0 for an integer divided by 0.
    fn rem(self, other: Self) -> Self;
    /// Raises to a power. A negative exponent of an integer truncates; 0 to a negative power gives 0.
    fn pow(self, exponent: Self) -> Self;
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            #[inline]
            fn from_f64(number: f64) -> Self { number as Self }
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline]
            fn add(self, other: Self) -> Self { self + other }
            #[inline]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline]
            fn div(self, other: Self) -> Self { self / other }
            #[inline]
            fn rem(self, other: Self) -> Self { self % other }
            #[inline]
            fn pow(self, exponent: Self) -> Self { self.powf(exponent) }
        }
    )*};
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            #[inline]
            fn from_f64(number: f64) -> Self { number as Self }
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline]
            fn pow(self, exponent: Self) -> Self {
                let (base, exponent) = (i128::from(self), i128::from(exponent));
                // 1 and -1 are their own inverses; `wrapping_power` of 0 is 0, as documented above.
                if exponent < 0 && base.abs() > 1 {
                    return 0;
                }
                wrapping_power(base as u64, exponent.unsigned_abs() as u64) as Self
            }
        }
    )*};
}

/// Computes the power modulo 2^64; its low bits are the result for any narrower integer.
fn wrapping_power(mut base: u64, mut exponent: u64) -> u64 {
    let mut power = 1u64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    power
}

floats!(f32, f64);
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// An element type that f64 converts to. Integers truncate and saturate.
pub(crate) trait OfReal: Element {
    /// Converts from f64.
    fn of_real(number: f64) -> Self;
}

macro_rules! of_real {
    ($($t:ty, $number:ident => $value:expr;)*) => {$(
        impl OfReal for $t {
            #[inline]
            fn of_real($number: f64) -> Self { $value }
        }
    )*};
}

of_real! {
    f32, x => x as Self;
    f64, x => x;
    F16, x => Self::from_f32(x as f32);
    Bf16, x => Self::from_f32(x as f32);
    i8, x => x as Self;
    i16, x => x as Self;
    i32, x => x as Self;
    i64, x => x as Self;
    u8, x => x as Self;
    u16, x => x as Self;
    u32, x => x as Self;
    u64, x => x as Self;
    Bool, x => Self::from(x != 0.0);
}

/// A floating-point type and its conversion to f64.
pub(crate) trait Floating: Element {
    /// Converts to f64, exactly.
    fn real(self) -> f64;
}

macro_rules! floating {
    ($($t:ty, $number:ident => $real:expr;)*) => {$(
        impl Floating for $t {
            #[inline]
            fn real(self) -> f64 { let $number = self; $real }
        }
    )*};
}

floating! {
    f32, x => x.into();
    f64, x => x;
    F16, x => x.to_f32().into();
    Bf16, x => x.to_f32().into();
}

/// Returns the bits of the value 1 in the type `dtype`.
pub(crate) fn one_bits(dtype: Option<DType>) -> u64 {
    match dtype {
        Some(DType::F32) => u64::from(1f32.to_bits()),
        Some(DType::F64) => 1f64.to_bits(),
        Some(DType::F16) => u64::from(F16::from_f32(1.0).0),
        Some(DType::Bf16) => u64::from(Bf16::from_f32(1.0).0),
        _ => 1,
    }
}

/// Returns the error for an element type that a kernel does not support.
pub(crate) fn refuse_type(found: Option<DType>) -> Error {
    let found = found.map_or("absent", DType::name);
    Error::new(format!("the element type is {found}, which the kernel does not take"))
}

/// Evaluates `$body` with `$T` bound to the Rust type of the listed type that `$dtype` is, or returns an error for a
/// type that is not listed. `$dtype` is an `Option<DType>`.
macro_rules! of_type {
    ($dtype:expr, [$($variant:ident = $rust:ty),* $(,)?], $T:ident => $body:expr) => {
        // A closure, so that functions of different types coerce to pointers in one match.
        (|| {
            Ok(match $dtype {
                $(Some(udo_api::DType::$variant) => {
                    type $T = $rust;
                    $body
                })*
                found => return Err($crate::number::refuse_type(found)),
            })
        })()
    };
}

/// Like `of_type`, over every type that a tensor can hold.
macro_rules! of_any {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!(
            $dtype,
            [
                F32 = f32, F64 = f64, F16 = udo_api::F16, Bf16 = udo_api::Bf16,
                I8 = i8, I16 = i16, I32 = i32, I64 = i64,
                U8 = u8, U16 = u16, U32 = u32, U64 = u64, Bool = udo_api::Bool,
            ],
            $T => $body
        )
    };
}

/// Evaluates `$body` with `$B` bound to an unsigned integer as wide as elements of `$dtype`. It suits operations that
/// treat elements as bits.
macro_rules! of_width {
    ($dtype:expr, $B:ident => $body:expr) => {
        // A closure, so that functions of different types coerce to pointers in one match.
        (|| {
            Ok(match $dtype.map(udo_api::DType::size_bytes) {
                Some(1) => {
                    type $B = u8;
                    $body
                }
                Some(2) => {
                    type $B = u16;
                    $body
                }
                Some(4) => {
                    type $B = u32;
                    $body
                }
                Some(8) => {
                    type $B = u64;
                    $body
                }
                _ => return Err($crate::number::refuse_type($dtype)),
            })
        })()
    };
}

/// Like `of_type`, over every [`Number`].
macro_rules! of_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!(
            $dtype,
            [
                F32 = f32, F64 = f64, I8 = i8, I16 = i16, I32 = i32, I64 = i64,
                U8 = u8, U16 = u16, U32 = u32, U64 = u64,
            ],
            $T => $body
        )
    };
}

/// Like `of_type`, over every [`Number`] and the 16-bit floats.
macro_rules! of_computed {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!(
            $dtype,
            [
                F32 = f32, F64 = f64, F16 = udo_api::F16, Bf16 = udo_api::Bf16,
                I8 = i8, I16 = i16, I32 = i32, I64 = i64,
                U8 = u8, U16 = u16, U32 = u32, U64 = u64,
            ],
            $T => $body
        )
    };
}

/// Like `of_type`, over the quantized types.
macro_rules! of_quantized {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!($dtype, [U8 = u8, I8 = i8, U16 = u16, I16 = i16, I32 = i32], $T => $body)
    };
}

/// A floating-point type that kernels compute in.
pub(crate) trait Real: Number {
    fn exp(self) -> Self;
    /// Returns the natural logarithm.
    fn ln(self) -> Self;
}

macro_rules! reals {
    ($($t:ty),*) => {$(
        impl Real for $t {
            #[inline]
            fn exp(self) -> Self { <$t>::exp(self) }
            #[inline]
            fn ln(self) -> Self { <$t>::ln(self) }
        }
    )*};
}

reals!(f32, f64);

/// Returns the error for an unknown recipe: the integers that tell a packing function how to pack a constant.
pub(crate) fn wrong_recipe(numbers: &[u64]) -> Error {
    Error::new(format!("no recipe has the numbers {numbers:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_powers_wrap_and_truncate() {
        for (base, exponent, expected) in [
            (3, 4, 81),
            (-3, 3, -27),
            (-3, 5, 13),
            (7, 0, 1),
            (0, 0, 1),
            (0, -1, 0),
            (1, i8::MIN, 1),
            (-1, -3, -1),
            (-1, i8::MIN, 1),
            (2, -1, 0),
            (3, i8::MIN, 0),
        ] {
            assert_eq!(Number::pow(base, exponent), expected, "{base} to the {exponent}");
        }
        assert_eq!(Number::pow(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Number::pow(3i64, i64::MIN), 0);
        assert_eq!(Number::pow(2f64, -2.0).to_bits(), 0.25f64.to_bits());
    }

    #[test]
    fn integers_truncate_and_saturate() {
        assert_eq!([1.9, -1.9, 300.0, f64::NAN].map(i8::from_f64), [1, -1, 127, 0]);
        assert_eq!((i64::MIN.to_f64(), 0.5f32.to_f64()), (-9_223_372_036_854_775_808.0, 0.5));
    }
}
