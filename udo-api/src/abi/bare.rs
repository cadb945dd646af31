//! Calls of kernels without guard and panic catch, in place of `watch.rs` under `--cfg udo_unguarded`: to
//! measure what those cost. Packages built so count as unguarded.

use super::ExecArgs;
use super::io::Owed;
use crate::guard::{self, GuardCell};
use crate::{ExecError, Io, Status};

/// None: hosts treat the package as one that nobody watches.
pub(super) const THREAD_GUARD: Option<extern "C" fn() -> *mut GuardCell> = None;

/// `[execute-time, thread-safe]` Runs `body`.
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
    let owed = Owed::of(args);
    // SAFETY: `state` is the `S` that finalize made, which the host frees after the last call.
    let state = unsafe { &*args.state.cast::<S>() };
    // SAFETY: the host keeps `tensors`, `packed` and `parallel` valid during the call.
    let io = unsafe { Io::from_raw(args, &owed) };
    // SAFETY: the views of `tensors` ended with `body`.
    match body(state, io).and_then(|()| unsafe { owed.check(args) }) {
        Ok(()) => Status::OK.code(),
        Err(error) => guard::with_this_thread(|cell| cell.settle(error)).code(),
    }
}
