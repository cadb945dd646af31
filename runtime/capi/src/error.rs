//! Errors as C has them, and those of the runtime as one of them.

use std::ffi::{CString, c_char};

use udo_engine::device;

use crate::codes::ErrorCode;
use crate::text::text;
use crate::unwind::drop_all;

/// Why a call was refused: a code, and a message that says what, where, found, wanted, and what to do next.
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

/// The kind of an error; `UDO_ERROR_NONE` of NULL.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_code(error: Option<&Error>) -> ErrorCode {
    error.map_or(0, |error| error.error.code().number())
}

/// The number that `OH_NN_ReturnCode` of `NNRt` has for an error; 0, its success, of NULL.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_code_nnrt(error: Option<&Error>) -> u32 {
    error.map_or(0, |error| error.error.code().nnrt())
}

/// What an error says, in UTF-8: what, where, found, wanted, next step. It is the error's and goes with it. Of NULL it is an
/// empty text.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_message(error: Option<&Error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Releases an error; NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn udo_error_release(error: Option<Box<Error>>) {
    drop_all(error);
}
