//! Conversions between numbers, each where what it loses is said.

/// An integer as a real number; beyond 2^53 the nearest one.
#[expect(clippy::cast_precision_loss, reason = "the nearest real number is what is meant")]
pub(crate) fn real(value: i64) -> f64 {
    value as f64
}

/// A length as a real number; beyond 2^53 the nearest one.
#[expect(clippy::cast_precision_loss, reason = "the nearest real number is what is meant")]
pub(crate) fn count(value: usize) -> f64 {
    value as f64
}

/// A real number as an integer: what is behind the point is dropped, what is too large becomes the nearest integer
/// that there is, and NaN becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "that is what is meant")]
pub(crate) fn whole(value: f64) -> i64 {
    value as i64
}

/// A real number rounded to single precision.
#[expect(clippy::cast_possible_truncation, reason = "that is what is meant")]
pub(crate) fn narrow(value: f64) -> f32 {
    value as f32
}

/// A real number rounded to what single precision holds.
pub(crate) fn single(value: f64) -> f64 {
    f64::from(narrow(value))
}

/// An index as a length, unless it is negative.
pub(crate) fn length(value: i64) -> Option<usize> {
    usize::try_from(value).ok()
}

/// A length as an integer. Tensors are far smaller than the largest.
pub(crate) fn integer(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
