//! What is wrong with an argument, in the words that all functions use.

use udo_engine::device::Result;
use udo_runtime::Error;
use udo_runtime::device::ErrorCode;

/// An argument that is wrong.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// What a pointer that has to be there points to, or where a result goes.
pub(crate) fn need<T>(argument: Option<T>, name: &str) -> Result<T> {
    argument.ok_or_else(|| null(name))
}

/// A pointer that is NULL and has to be there.
pub(crate) fn null(name: &str) -> Error {
    invalid(format!("argument {name} is NULL; expected a pointer"))
}

/// What is at a place, from 0 on.
pub(crate) fn place<'a, T>(all: &'a [T], what: &str, index: usize) -> Result<&'a T> {
    all.get(index).ok_or_else(|| {
        let count = all.len();
        invalid(format!("there is no {what} {index}; expected a place below {count}"))
    })
}
