//! Errors: with messages before a run, `Copy` during it.

use std::fmt;

use crate::dtype::DType;

/// Why an operator or kernel cannot be used for a node. It is created before any run, so it may allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

impl Error {
    /// Creates a refusal with this message: a lower-case fragment that says what was found and what was expected.
    pub fn new(message: impl Into<String>) -> Self {
        Self { status: Status::FAILED, message: message.into() }
    }

    /// Creates the error of a function that its author has not written yet.
    pub fn not_implemented() -> Self {
        Self { status: Status::NOT_IMPLEMENTED, message: "not implemented yet".to_owned() }
    }

    /// Returns the status of this error in the ABI.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A failed view in finalize is a refusal.
impl From<ExecError> for Error {
    fn from(error: ExecError) -> Self {
        let status =
            if error.status == Status::NOT_IMPLEMENTED { error.status } else { Status::FAILED };
        Self { status, message: error.to_string() }
    }
}

/// The result of a call across the ABI. Numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Status(u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Name and number of every status.
            pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $code)),*];

            /// Describes the status in a few words; `None` for an unknown number.
            pub const fn meaning(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }

            /// Returns the constant's name; `None` for an unknown number.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// The call succeeded.
    OK = 0, "ok";
    /// The callee refused, for the reason in its message.
    FAILED = 1, "failed";
    /// The author has not written this function yet.
    NOT_IMPLEMENTED = 2, "is not implemented yet";
    /// The heap was used where it is not allowed.
    HEAP_USE = 3, "used the heap in execute";
    /// The callee panicked.
    PANICKED = 4, "panicked";
    /// More scratch or geometry was requested than `workspace` or `needs` declared.
    SCRATCH_EXCEEDED = 5, "requested more scratch or geometry than it declared";
    /// A port was requested that the node does not have.
    NO_SUCH_PORT = 6, "requested a port that the node does not have";
    /// A port was read or written as a type that it does not have.
    WRONG_TYPE = 7, "used a port as a type that it does not have";
    /// An output was taken a second time.
    OUTPUT_TAKEN = 8, "took an output twice";
    /// A port of an in-place pair was requested on its own, or a pair that is not in place.
    IN_PLACE = 9, "used one port of an in-place pair on its own";
    /// An output was given more elements than its upper bound.
    BOUND_EXCEEDED = 10, "gave an output a larger shape than its bound";
    /// The data holds a value that the operator cannot work with.
    BAD_VALUE = 11, "found a value that it cannot process";
    /// A port with strided rows was read as one dense slice.
    NOT_DENSE = 12, "read strided rows as a dense slice";
    /// A GPU kernel has neither a device nor a `work_item`.
    NO_WORK_ITEM = 13, "has no work_item for the emulated GPU";
    /// The caller broke the contract.
    BAD_CALL = 14, "was called in violation of the contract";
    /// The driver of a device failed.
    DEVICE = 15, "failed in the device's driver";
    /// An output was not written.
    OUTPUT_NOT_TAKEN = 16, "returned without taking an output";
    /// The dimensions of a bounded output were not set.
    EXTENT_NOT_SAID = 17, "returned without setting the dimensions of a bounded output";
    /// The caller cancelled the run, so it ended early.
    CANCELLED = 18, "was cancelled";
    /// The process that runs the package's code ended, timed out, or wrote outside its memory.
    WORKER = 19, "failed in its worker process";
}

impl Status {
    /// Returns the number.
    pub const fn code(self) -> u32 {
        self.0
    }

    /// Returns the status with this number, which may be unknown.
    pub const fn from_code(code: u32) -> Self {
        Self(code)
    }

    /// Returns the more severe of two: a panic outranks heap use, which outranks the rest; success ranks last.
    #[must_use]
    pub const fn worse(self, other: Self) -> Self {
        if other.weight() > self.weight() { other } else { self }
    }

    const fn weight(self) -> u32 {
        match self {
            Self::OK => 0,
            Self::HEAP_USE => 2,
            Self::PANICKED => 3,
            _ => 1,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => f.pad(meaning),
            None => write!(f, "returned unknown status {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "Status({})", self.0),
        }
    }
}

/// Why a run failed: small and `Copy`, so that creating and returning it does not use the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecError {
    /// The status.
    pub status: Status,
    /// Two numbers whose meaning depends on the status, such as the requested and the available bytes.
    pub detail: [u64; 2],
}

impl ExecError {
    /// The former name of [`ExecError::new`].
    #[doc(hidden)]
    pub const fn of(status: Status) -> Self {
        Self::new(status)
    }

    /// Creates an error without details.
    pub const fn new(status: Status) -> Self {
        Self { status, detail: [0; 2] }
    }

    /// Creates an error with two numbers; [`ExecError`]'s `Display` explains them.
    pub const fn with(status: Status, detail: [u64; 2]) -> Self {
        Self { status, detail }
    }

    /// Creates the error of a function that its author has not written yet.
    pub const fn not_implemented() -> Self {
        Self::new(Status::NOT_IMPLEMENTED)
    }

    /// Creates the error for data that the operator cannot process: `value` at element `at`.
    ///
    /// The second number is `at` + 1, so that an error [`of`](Self::of) the bare status does not name an element.
    pub const fn bad_value(value: i64, at: usize) -> Self {
        Self::with(Status::BAD_VALUE, [value.cast_unsigned(), (at as u64).saturating_add(1)])
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.detail;
        write!(f, "{}", self.status)?;
        match self.status {
            Status::SCRATCH_EXCEEDED => write!(f, ": requested {a} bytes, {b} are left"),
            Status::NO_SUCH_PORT => write!(f, ": port {a} of {b}"),
            Status::WRONG_TYPE => {
                let name = |code: u64| {
                    u8::try_from(code).ok().and_then(DType::from_code).map_or("?", DType::name)
                };
                write!(f, ": expected {}, found {}", name(a), name(b))
            }
            Status::DEVICE => write!(f, ": call {a} returned {}", b.cast_signed()),
            Status::HEAP_USE => write!(f, ": {a} times, the first for {b} bytes"),
            Status::BOUND_EXCEEDED => write!(f, ": {a} elements, bound {b}"),
            // Some kernels do not report the value.
            Status::BAD_VALUE if b != 0 => {
                write!(f, ": {} at element {}", a.cast_signed(), b - 1)
            }
            Status::OUTPUT_TAKEN
            | Status::OUTPUT_NOT_TAKEN
            | Status::EXTENT_NOT_SAID
            | Status::IN_PLACE
            | Status::NOT_DENSE => write!(f, ": port {a}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ExecError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_outrank_heap_use_which_outranks_other_errors() {
        let order = [Status::OK, Status::BAD_VALUE, Status::HEAP_USE, Status::PANICKED];
        for (i, &low) in order.iter().enumerate() {
            for &high in &order[i..] {
                assert_eq!(low.worse(high), high);
                assert_eq!(high.worse(low), high);
            }
        }
    }

    #[test]
    fn messages_explain_the_numbers_of_an_error() {
        let cases = [
            (
                ExecError::with(Status::SCRATCH_EXCEEDED, [256, 64]),
                "requested more scratch or geometry than it declared: requested 256 bytes, 64 are left",
            ),
            (
                ExecError::with(Status::WRONG_TYPE, [1, 9]),
                "used a port as a type that it does not have: expected f32, found u8",
            ),
            (ExecError::new(Status::BAD_VALUE), "found a value that it cannot process"),
            (ExecError::bad_value(0, 0), "found a value that it cannot process: 0 at element 0"),
            (ExecError::bad_value(-7, 3), "found a value that it cannot process: -7 at element 3"),
            (ExecError::new(Status::from_code(99)), "returned unknown status 99"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
