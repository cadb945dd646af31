//! Every call of a kernel: inside the heap-free region, with panics caught.

use super::ExecArgs;
use super::io::Owed;
use crate::guard::{self, GuardCell};
use crate::{ExecError, Io, Status};

/// The cell of this library on a thread: what makes a package a guarded one.
pub(super) const THREAD_GUARD: Option<extern "C" fn() -> *mut GuardCell> = Some(thread_guard);

/// `[finalize-time, thread-safe]` The calling thread's cell of this library.
extern "C" fn thread_guard() -> *mut GuardCell {
    guard::this_thread()
}

/// `[execute-time, thread-safe, heap-free]` Opens the heap-free region around `body`.
///
/// # Safety
/// `args` must be valid as the ABI says, and `args.state` be a `*const S` from finalize.
#[inline]
pub(super) unsafe fn guarded<S>(
    args: *const ExecArgs,
    body: impl FnOnce(&S, Io<'_>) -> Result<(), ExecError>,
) -> u32 {
    // SAFETY: as promised by the caller.
    let args = unsafe { &*args };
    let own = if args.guard.is_null() { guard::this_thread() } else { args.guard };
    // SAFETY: the host passes this thread's cell, which lives as long as the thread.
    let cell: &GuardCell = unsafe { &*own };
    let owed = Owed::of(args);
    cell.enter();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: `state` is the `S` that finalize made, which the host frees after the last call.
        let state = unsafe { &*args.state.cast::<S>() };
        // SAFETY: the host keeps `tensors`, `packed` and `parallel` valid during the call.
        let io = unsafe { Io::from_raw(args, &owed) };
        body(state, io)?;
        // SAFETY: the views of `tensors` ended with `body`.
        unsafe { owed.check(args) }
    }));
    let used = cell.leave();
    match outcome {
        Ok(Ok(())) if !used => Status::OK.code(),
        Ok(Ok(())) => cell.settle(ExecError::of(Status::OK)).code(),
        Ok(Err(error)) => cell.settle(error).code(),
        Err(payload) => {
            guard::discard(payload);
            cell.settle(ExecError::of(Status::PANICKED)).code()
        }
    }
}
