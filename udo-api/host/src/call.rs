//! The error of a kernel call: its status, details and panic message.

use std::fmt;

use udo_api::guard::LibraryGuard;
use udo_api::{ExecError, Status};

use crate::node::printable;

/// Why a call of a kernel failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kernel's error.
    pub error: ExecError,
    /// The panic message; empty if it did not panic.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => self.error.fmt(f),
            message => write!(f, "{}: {message}", self.error),
        }
    }
}

impl std::error::Error for Failure {}

/// Converts the `status` of a call on this thread into an error, with the details in the report of `guard`; clears the
/// report.
#[cold]
pub fn failure(status: u32, guard: LibraryGuard) -> Failure {
    let report = guard.take_report();
    let error = ExecError::with(Status::from_code(status), report.detail());
    Failure { error, message: printable(&report.message()).into_owned() }
}
