//! What a call answers.

use std::fmt;

use udo_api::guard::{GuardCell, this_thread};
use udo_api::{ExecError, Status};

/// Why a call of a kernel failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the kernel answered.
    pub error: ExecError,
    /// What it said when it panicked; empty if it did not.
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

/// Reads why a call that had `guard` in its arguments answered `status`, and clears what it left there.
///
/// # Safety
/// `guard` is null, or points to a cell of the calling thread, whose last call has returned.
#[cold]
pub unsafe fn failure(status: u32, guard: *const GuardCell) -> Failure {
    let status = Status::from_code(status);
    // SAFETY: as promised, `guard` is null or points to a cell that no call uses.
    let report = unsafe { guard.as_ref() }.map(GuardCell::take_report);
    let (detail, message) = report.map_or_else(Default::default, |r| (r.detail, r.message));
    Failure { error: ExecError::with(status, detail), message }
}

/// The guard of kernels in libraries without one, and of those that the program holds itself.
pub extern "C" fn program_guard() -> *mut GuardCell {
    this_thread()
}
