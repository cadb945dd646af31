//! Element types with an arithmetic, and the way from a type's code to the Rust type.

use udo_api::{DType, Element, Error};

/// An element type that can be added and multiplied; integers wrap.
pub(crate) trait Number: Element + PartialOrd {
    const ZERO: Self;
    const LOWEST: Self;
    /// The number nearest to this one.
    fn nearest(number: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The quotient; of integers without its fraction, and 0 over 0.
    fn div(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            #[inline]
            fn nearest(number: f64) -> Self { number as Self }
            #[inline]
            fn add(self, other: Self) -> Self { self + other }
            #[inline]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline]
            fn div(self, other: Self) -> Self { self / other }
        }
    )*};
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0;
            const LOWEST: Self = <$t>::MIN;
            #[inline]
            fn nearest(number: f64) -> Self { number as Self }
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
        }
    )*};
}

floats!(f32, f64);
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// The refusal of a type that no arm is for.
pub(crate) fn refuse_type(found: Option<DType>) -> Error {
    let found = found.map_or("absent", DType::name);
    Error::new(format!("the element type is {found}, which the kernel does not take"))
}

/// The arm's value with `$T` standing for the Rust type of `$dtype`; an error for any type not listed.
macro_rules! of_type {
    ($dtype:expr, [$($variant:ident = $rust:ty),* $(,)?], $T:ident => $body:expr) => {
        // A closure, so that functions of different types meet as pointers in one match.
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

/// As `of_type`, over every type that a tensor can hold.
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

/// As `of_type`, over every type that is a [`Number`].
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

/// As `of_type`, over the types that fixed-point codes have.
macro_rules! of_code {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!($dtype, [U8 = u8, I8 = i8, U16 = u16, I16 = i16, I32 = i32], $T => $body)
    };
}

/// A floating-point type that kernels compute in.
pub(crate) trait Real: Number {
    fn of(value: f64) -> Self;
    fn exp(self) -> Self;
}

macro_rules! reals {
    ($($t:ty),*) => {$(
        impl Real for $t {
            #[inline]
            fn of(value: f64) -> Self { value as Self }
            #[inline]
            fn exp(self) -> Self { <$t>::exp(self) }
        }
    )*};
}

reals!(f32, f64);

/// The answer of a packer to numbers that no recipe of its has.
pub(crate) fn wrong_recipe(numbers: &[u64]) -> Error {
    Error::new(format!("no recipe has the numbers {numbers:?}"))
}
