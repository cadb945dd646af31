//! Errors as C has them, and those of the runtime as one of them.

use std::ffi::{CString, c_char};

use udo_engine::device;

use crate::codes::ErrorCode;
use crate::text::text;
use crate::unwind::drop_all;
use udo_engine::device::ErrorContext;

/// The reason of a refusal: a code, and a message that says where, what was found, what was
/// expected, and what to do next.
#[derive(Debug)]
pub struct Error {
    error: device::Error,
    message: CString,
}

impl From<device::Error> for Error {
    fn from(error: device::Error) -> Self {
        let message = text(error.message());
        Self { error, message }
    }
}

/// Returns the kind of an error; `UDO_ERROR_NONE` for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_code(error: Option<&Error>) -> ErrorCode {
    error.map_or(0, |error| error.error.code().into())
}

/// Returns the `OH_NN_ReturnCode` of `NNRt` for an error; 0, its success code, for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_code_nnrt(error: Option<&Error>) -> u32 {
    error.map_or(0, |error| nnrt_code(error.error.code()))
}

/// Returns the message of an error in UTF-8: where, what was found, what was expected, and the next
/// step. The string lives as long as the error. Empty for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_message(error: Option<&Error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Releases an error. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_release(error: Option<Box<Error>>) {
    drop_all(error);
}

/// Returns the number that `OH_NN_ReturnCode` of `NNRt` has for a code.
fn nnrt_code(code: device::ErrorCode) -> u32 {
    use device::ErrorCode;
    match code {
        ErrorCode::InvalidArgument | ErrorCode::ShapeMismatch | ErrorCode::AlreadyExists => 2,
        ErrorCode::OutOfMemory => 3,
        ErrorCode::InvalidState | ErrorCode::Busy => 4,
        ErrorCode::InvalidFile => 6,
        ErrorCode::InvalidPath => 8,
        ErrorCode::Timeout => 9,
        ErrorCode::Unsupported => 10,
        ErrorCode::DeviceLost => 11,
        ErrorCode::DynamicShape => 13,
        ErrorCode::DeviceUnavailable => 14,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_number_of_nnrt() {
        let numbers = udo_graph::error::ERROR_CODES.map(nnrt_code);
        assert_eq!(numbers, [2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 2, 2, 4, 1, 1, 1]);
    }
}
