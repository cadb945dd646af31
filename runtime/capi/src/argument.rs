//! Errors for invalid arguments, worded the same by all functions.

use udo_engine::device::Result;
use udo_runtime::Error;
use udo_runtime::device::ErrorCode;

/// Returns the error for an invalid argument.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Unwraps a required pointer, or the place of a result.
pub(crate) fn need<T>(argument: Option<T>, name: &str) -> Result<T> {
    argument.ok_or_else(|| null(name))
}

/// Returns the error for a required pointer that is NULL.
pub(crate) fn null(name: &str) -> Error {
    invalid(format!("argument {name} is NULL; expected a pointer"))
}

/// Returns the element at an index.
pub(crate) fn place<'a, T>(all: &'a [T], what: &str, index: usize) -> Result<&'a T> {
    all.get(index).ok_or_else(|| {
        let count = all.len();
        invalid(format!("no {what} {index}; expected an index below {count}"))
    })
}
