//! Error reports to the host: through the guard of a library, or the error sink of a call.

use std::cell::Cell;

use udo_api::Status;
use udo_api::abi::ErrorSink;
use udo_api::guard::{self, GuardCell, GuardReport, LibraryGuard};

use super::worker::Fault;

/// The guard of every contained library. Its reports are those of the last call on this thread.
pub(super) const GUARD: LibraryGuard = LibraryGuard::new(cell, report);

/// The report of a thread without a failed call.
const NO_REPORT: GuardReport = GuardReport::NONE;

thread_local! {
    static REPORT: Cell<GuardReport> = const { Cell::new(NO_REPORT) };
}

extern "C" fn cell() -> *mut GuardCell {
    guard::this_thread()
}

// SAFETY: called by the host, with room for a report.
unsafe extern "C" fn report(report: *mut GuardReport) {
    let taken = REPORT.replace(NO_REPORT);
    // SAFETY: the host passes room for a report of this very version.
    unsafe { report.write(taken) };
}

/// Sets the report of a failed call and returns its status.
pub(super) fn leave(status: u32, detail: [u64; 2], text: &str) -> u32 {
    REPORT.set(GuardReport::new(detail, text));
    status
}

/// Sets the report of a failed worker and returns the status.
pub(super) fn fault(fault: &Fault) -> u32 {
    leave(Status::WORKER.code(), [0; 2], &fault.0)
}

/// Writes an error message to the host's sink and returns the status.
///
/// # Safety
/// `errors` is null or valid for the call.
pub(super) unsafe fn refuse(errors: *const ErrorSink, status: u32, text: &str) -> u32 {
    // SAFETY: as the caller promises.
    if let Some(sink) = unsafe { errors.as_ref() } {
        // SAFETY: the sink takes text during the call, with its own `ctx`.
        unsafe { (sink.write)(sink.ctx, text.as_ptr(), text.len()) };
    }
    status
}
