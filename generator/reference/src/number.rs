//! Lossy conversions between numbers.

/// Converts an integer to a float; beyond 2^53 to the nearest one.
#[expect(clippy::cast_precision_loss, reason = "rounding to the nearest float is intended")]
pub(crate) fn real(value: i64) -> f64 {
    value as f64
}

/// Converts a length to a float; beyond 2^53 to the nearest one.
#[expect(clippy::cast_precision_loss, reason = "rounding to the nearest float is intended")]
pub(crate) fn count(value: usize) -> f64 {
    value as f64
}

/// Converts a float to an integer: truncates towards zero, saturates, and maps NaN to 0.
#[expect(clippy::cast_possible_truncation, reason = "truncation is intended")]
pub(crate) fn whole(value: f64) -> i64 {
    value as i64
}

/// Rounds a float to single precision.
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(crate) fn narrow(value: f64) -> f32 {
    value as f32
}

/// Rounds a float to single precision and widens it again.
pub(crate) fn single(value: f64) -> f64 {
    f64::from(narrow(value))
}

/// Converts an index to a length, unless it is negative.
pub(crate) fn length(value: i64) -> Option<usize> {
    usize::try_from(value).ok()
}

/// Converts a length to an integer. Tensors are far smaller than the maximum.
pub(crate) fn integer(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
