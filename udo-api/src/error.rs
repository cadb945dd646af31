//! Errors: rich before a run, `Copy` during it.

use std::fmt;

use crate::dtype::DType;

/// Why an operator or kernel cannot be used as asked; made before any run, so it may say as much as it likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

impl Error {
    /// A refusal with this message: a lower-case fragment saying what was found and what was wanted.
    pub fn new(message: impl Into<String>) -> Self {
        Self { status: Status::FAILED, message: message.into() }
    }

    /// The answer of a body that its author has not written yet.
    pub fn not_implemented() -> Self {
        Self { status: Status::NOT_IMPLEMENTED, message: "not implemented yet".to_owned() }
    }

    /// The status that stands for this error in the ABI.
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

/// A view that does not fit in finalize is a refusal like any other.
impl From<ExecError> for Error {
    fn from(error: ExecError) -> Self {
        let status =
            if error.status == Status::NOT_IMPLEMENTED { error.status } else { Status::FAILED };
        Self { status, message: error.to_string() }
    }
}

/// What a call across the ABI came to. Numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Status(u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Name and number of every status.
            pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $code)),*];

            /// What the status means, in a few words; nothing for a number that has no meaning.
            pub const fn meaning(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }

            /// The constant's name; nothing for a number that has no meaning.
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
    /// It worked.
    OK = 0, "ok";
    /// The callee refused, for the reason in its message.
    FAILED = 1, "failed";
    /// The author has not written this body yet.
    NOT_IMPLEMENTED = 2, "is not implemented yet";
    /// The heap was used where it must not be.
    HEAP_USE = 3, "used the heap in execute";
    /// The callee panicked.
    PANICKED = 4, "panicked";
    /// More scratch or geometry was asked for than `workspace` or `needs` declared.
    SCRATCH_EXCEEDED = 5, "asked for more scratch or geometry than it declared";
    /// A port that the node does not have was asked for.
    NO_SUCH_PORT = 6, "asked for a port that the node does not have";
    /// A port was read or written as a type that it does not have.
    WRONG_TYPE = 7, "used a port as a type that it does not have";
    /// An output was taken a second time.
    OUTPUT_TAKEN = 8, "took an output twice";
    /// A port of an in-place pair was asked for on its own, or a pair that is none.
    IN_PLACE = 9, "used one port of an in-place pair on its own";
    /// An output was given more elements than its upper bound.
    BOUND_EXCEEDED = 10, "gave an output a larger shape than its bound";
    /// The data holds a value that the operator cannot work with.
    BAD_VALUE = 11, "met a value that it cannot work with";
    /// A port with strided rows was read as one dense slice.
    NOT_DENSE = 12, "read strided rows as a dense slice";
    /// A GPU kernel has neither a device nor a `work_item`.
    NO_WORK_ITEM = 13, "has no work_item for the emulated GPU";
    /// The caller broke the contract.
    BAD_CALL = 14, "was called against the contract";
    /// The driver of a device failed.
    DEVICE = 15, "met a failure of the device's driver";
    /// An output was left as it was.
    OUTPUT_NOT_TAKEN = 16, "returned without having taken an output";
    /// The extents of a bounded output were left open.
    EXTENT_NOT_SAID = 17, "returned without having said the extents of a bounded output";
    /// Nobody wants the results any more, so it ended early.
    CANCELLED = 18, "was stopped, as nobody wants its results any more";
    /// The process that runs the package's code ended, did not answer in time, or wrote where it must not.
    WORKER = 19, "failed in its worker process";
}

impl Status {
    /// The number.
    pub const fn code(self) -> u32 {
        self.0
    }

    /// The status with this number, which may have no meaning.
    pub const fn from_code(code: u32) -> Self {
        Self(code)
    }

    /// The weightier of two: a panic outranks heap use, which outranks the rest; success loses to all.
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
            None => write!(f, "answered with status {}, which has no meaning", self.0),
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

/// Why a run failed: small and `Copy`, so that it costs no heap to make or pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecError {
    /// What went wrong.
    pub status: Status,
    /// Two numbers that the status gives a meaning to, such as bytes asked for and bytes there.
    pub detail: [u64; 2],
}

impl ExecError {
    /// An error with nothing more to say than its status.
    pub const fn of(status: Status) -> Self {
        Self { status, detail: [0; 2] }
    }

    /// An error with two numbers; [`ExecError`]'s `Display` says what they mean.
    pub const fn with(status: Status, detail: [u64; 2]) -> Self {
        Self { status, detail }
    }

    /// The answer of a body that its author has not written yet.
    pub const fn not_implemented() -> Self {
        Self::of(Status::NOT_IMPLEMENTED)
    }

    /// The data holds a value that the operator cannot work with; `value` at element `at` is shown.
    ///
    /// The second number is one more than `at`, so that an error [`of`](Self::of) the status alone names no element.
    pub const fn bad_value(value: i64, at: usize) -> Self {
        Self::with(Status::BAD_VALUE, [value.cast_unsigned(), (at as u64).saturating_add(1)])
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.detail;
        write!(f, "{}", self.status)?;
        match self.status {
            Status::SCRATCH_EXCEEDED => write!(f, ": wanted {a} bytes, {b} are left"),
            Status::NO_SUCH_PORT => write!(f, ": port {a} of {b}"),
            Status::WRONG_TYPE => {
                let name = |code: u64| {
                    u8::try_from(code).ok().and_then(DType::from_code).map_or("?", DType::name)
                };
                write!(f, ": wanted {}, found {}", name(a), name(b))
            }
            Status::DEVICE => write!(f, ": call {a} answered {}", b.cast_signed()),
            Status::HEAP_USE => write!(f, ": {a} times, the first for {b} bytes"),
            Status::BOUND_EXCEEDED => write!(f, ": {a} elements, bound {b}"),
            // Not every kernel says which.
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
    fn a_panic_outranks_heap_use_and_heap_use_the_rest() {
        let order = [Status::OK, Status::BAD_VALUE, Status::HEAP_USE, Status::PANICKED];
        for (i, &low) in order.iter().enumerate() {
            for &high in &order[i..] {
                assert_eq!(low.worse(high), high);
                assert_eq!(high.worse(low), high);
            }
        }
    }

    #[test]
    fn errors_say_what_their_numbers_mean() {
        let cases = [
            (
                ExecError::with(Status::SCRATCH_EXCEEDED, [256, 64]),
                "asked for more scratch or geometry than it declared: wanted 256 bytes, 64 are left",
            ),
            (
                ExecError::with(Status::WRONG_TYPE, [1, 9]),
                "used a port as a type that it does not have: wanted f32, found u8",
            ),
            (ExecError::of(Status::BAD_VALUE), "met a value that it cannot work with"),
            (ExecError::bad_value(0, 0), "met a value that it cannot work with: 0 at element 0"),
            (ExecError::bad_value(-7, 3), "met a value that it cannot work with: -7 at element 3"),
            (ExecError::of(Status::from_code(99)), "answered with status 99, which has no meaning"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
