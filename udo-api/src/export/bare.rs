//! Kernel calls without heap guard and panic catch, in place of `watch.rs` under `--cfg udo_unguarded`,
//! to measure their cost. Packages built this way count as unguarded.

use crate::abi::ExecArgs;
use crate::error::{ExecError, Status};
use crate::guard::{self, LibraryGuard};

/// `None`: hosts treat the package as unguarded.
pub(super) const LIBRARY_GUARD: Option<LibraryGuard> = None;

/// `[execute-time, thread-safe]` Runs `body`.
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
    // SAFETY: `state` is the `S` from finalize, which the host frees after the last call.
    let state = unsafe { &*args.state.cast::<S>() };
    match body(state, args) {
        Ok(()) => Status::OK.code(),
        Err(error) => guard::with_this_thread(|cell| cell.settle(error)).code(),
    }
}
