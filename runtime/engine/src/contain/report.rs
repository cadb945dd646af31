//! What the host is told of a function that failed: by the guard of its library, or by the sink that the host gives it.

use std::cell::Cell;

use udo_api::Status;
use udo_api::abi::ErrorSink;
use udo_api::guard::{self, GuardCell, GuardReport, LibraryGuard};

use super::worker::Fault;

/// The guard of every contained library: its cells are the worker's, and its reports what the last call here was told.
pub(super) const GUARD: LibraryGuard = LibraryGuard::new(cell, report);

/// What a failed call leaves for who asks why.
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

/// Leaves word of why a call failed; its status.
pub(super) fn leave(status: u32, detail: [u64; 2], text: &str) -> u32 {
    REPORT.set(GuardReport::new(detail, text));
    status
}

/// Leaves word of a worker that failed in a call; its status.
pub(super) fn fault(fault: &Fault) -> u32 {
    leave(Status::WORKER.code(), [0; 2], &fault.0)
}

/// Tells the host why something is refused; the status.
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
