//! The error type of the device API.

use std::fmt;

use udo_host::memory::OutOfMemory;

/// Formats names for a message: quoted and separated by commas.
pub fn quoted<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("{:?}", name.as_ref())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The kind of an error. Programs decide by the code; people read the message. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ErrorCode {
    /// An argument is invalid by itself or in combination with others.
    InvalidArgument = 1,
    /// A heap's limit, the system's memory or a tensor's memory is too small.
    OutOfMemory = 2,
    /// The call is not valid after the calls before it.
    InvalidState = 3,
    /// The content of a file is invalid.
    InvalidFile = 4,
    /// A file or folder does not exist, or access is denied.
    InvalidPath = 5,
    /// The time limit expired.
    Timeout = 6,
    /// The device, or this system, does not support the request.
    Unsupported = 7,
    /// The device was lost.
    DeviceLost = 8,
    /// The request needs a size that a dynamic dimension leaves open.
    DynamicShape = 9,
    /// The device does not exist, or cannot be opened.
    DeviceUnavailable = 10,
    /// The shape is not one of the allowed shapes.
    ShapeMismatch = 11,
    /// The name is already in use.
    AlreadyExists = 12,
    /// The resource is in use.
    Busy = 13,
    /// The caller cancelled the work.
    Cancelled = 14,
    /// A bug in this library.
    Internal = 15,
    /// The worker process of a contained package ended, or did not answer in time. The next call starts another
    /// one.
    WorkerLost = 16,
}

/// All error codes, in the order of their numbers.
pub const ERROR_CODES: [ErrorCode; 16] = [
    ErrorCode::InvalidArgument,
    ErrorCode::OutOfMemory,
    ErrorCode::InvalidState,
    ErrorCode::InvalidFile,
    ErrorCode::InvalidPath,
    ErrorCode::Timeout,
    ErrorCode::Unsupported,
    ErrorCode::DeviceLost,
    ErrorCode::DynamicShape,
    ErrorCode::DeviceUnavailable,
    ErrorCode::ShapeMismatch,
    ErrorCode::AlreadyExists,
    ErrorCode::Busy,
    ErrorCode::Cancelled,
    ErrorCode::Internal,
    ErrorCode::WorkerLost,
];

impl ErrorCode {
    /// Returns a short description.
    const fn meaning(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid argument",
            Self::OutOfMemory => "out of memory",
            Self::InvalidState => "invalid state",
            Self::InvalidFile => "invalid file",
            Self::InvalidPath => "invalid path",
            Self::Timeout => "timeout",
            Self::Unsupported => "unsupported",
            Self::DeviceLost => "device lost",
            Self::DynamicShape => "dynamic shape",
            Self::DeviceUnavailable => "device unavailable",
            Self::ShapeMismatch => "shape mismatch",
            Self::AlreadyExists => "already exists",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal error",
            Self::WorkerLost => "worker lost",
        }
    }
}

impl From<ErrorCode> for u32 {
    /// The number that stands for a code in C.
    fn from(code: ErrorCode) -> Self {
        code as Self
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.meaning())
    }
}

/// An error that has a code.
pub trait Coded {
    /// Returns the kind of the error.
    fn code(&self) -> ErrorCode;
}

/// An error: a code, and a message with the place, what was found, what was expected, and after a semicolon the next step.
///
/// ```
/// use udo_graph::error::{Error, ErrorCode, ErrorContext};
///
/// let error = Error::new(ErrorCode::DeviceUnavailable, "there is no device dsp:7");
/// assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
/// assert_eq!(error.at("core 3").to_string(), "core 3: there is no device dsp:7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: ErrorCode,
    message: String,
}

impl Error {
    /// Creates an error.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The kind.
    pub const fn code(&self) -> ErrorCode {
        self.code
    }
}

/// Errors with a place or a next step added to their messages.
pub trait ErrorContext: Sized {
    /// Returns an error with this code and the message of another error and of its sources.
    fn from_error(code: ErrorCode, error: &dyn std::error::Error) -> Self;

    /// Puts a place before the message.
    #[must_use]
    fn at(self, place: impl fmt::Display) -> Self;

    /// Puts the next step after the message.
    #[must_use]
    fn then(self, step: &str) -> Self;

    /// Returns the message.
    fn message(&self) -> &str;
}

impl ErrorContext for Error {
    fn from_error(code: ErrorCode, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            message = format!("{message}: {error}");
            source = error.source();
        }
        Self::new(code, message)
    }

    fn at(self, place: impl fmt::Display) -> Self {
        Self::new(self.code, format!("{place}: {}", self.message))
    }

    fn then(self, step: &str) -> Self {
        Self::new(self.code, format!("{}; {step}", self.message))
    }

    fn message(&self) -> &str {
        &self.message
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Self::new(ErrorCode::OutOfMemory, format!("device memory {error}"))
    }
}

/// The result of calls of the device API.
pub type Result<T> = std::result::Result<T, Error>;

/// Creates an error about an invalid argument.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_descriptions_of_codes_are_unique() {
        for (index, code) in ERROR_CODES.into_iter().enumerate() {
            assert_eq!(usize::try_from(u32::from(code)), Ok(index + 1));
            let equal = ERROR_CODES.iter().filter(|other| other.meaning() == code.meaning());
            assert_eq!(equal.count(), 1, "{code}");
        }
    }
}
