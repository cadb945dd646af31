//! Runs every kernel call inside the heap-free region, with panics caught.

use crate::abi::ExecArgs;
use crate::error::{ExecError, Status};
use crate::guard::{self, GuardCell, LibraryGuard};

/// The guard of this library; its presence makes a package a guarded one.
pub(super) const LIBRARY_GUARD: Option<LibraryGuard> = Some(guard::OWN_GUARD);

/// `[execute-time, thread-safe, heap-free]` Runs `body` inside the heap-free region.
///
/// # Safety
/// `args` must be valid as the ABI says, and `args.state` be a `*const S` from finalize.
#[inline]
pub(super) unsafe fn watched<S>(
    args: *const ExecArgs,
    body: impl FnOnce(&S, &ExecArgs) -> Result<(), ExecError>,
) -> u32 {
    // SAFETY: the caller passes arguments that are valid as the ABI says until this returns.
    let args = unsafe { &*args };
    let cell = if args.guard.is_null() { guard::this_thread() } else { args.guard };
    // SAFETY: the host passes this thread's cell, which lives as long as the thread.
    let cell: &GuardCell = unsafe { &*cell };
    cell.enter();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: `state` is the `S` from finalize, which the host frees after the last call.
        let state = unsafe { &*args.state.cast::<S>() };
        body(state, args)
    }));
    let used_heap = cell.leave();
    if !used_heap && matches!(outcome, Ok(Ok(()))) {
        return Status::OK.code();
    }
    settle(cell, outcome)
}

/// Returns the status of a call that failed, panicked or used the heap. Compiled once, and not for each kernel.
#[cold]
fn settle(cell: &GuardCell, outcome: std::thread::Result<Result<(), ExecError>>) -> u32 {
    let error = match outcome {
        Ok(Ok(())) => ExecError::new(Status::OK),
        Ok(Err(error)) => error,
        Err(payload) => {
            guard::discard(payload);
            ExecError::new(Status::PANICKED)
        }
    };
    cell.settle(error).code()
}
