//! How an error of a callee crosses the ABI: its status, and its message through a sink.

use super::node::ErrorSink;
use crate::error::{Error, Status};
use crate::guard;

/// Runs `body`, sends its error to the sink, and returns its status. It is compiled once instead of for each
/// kernel.
///
/// # Safety
/// `errors` must be null or valid for the call.
pub(crate) unsafe fn report(
    errors: *const ErrorSink,
    body: &mut dyn FnMut() -> Result<(), Error>,
) -> u32 {
    let (status, message) = guard::with_this_thread(|cell| match cell.capture(body) {
        Some(Ok(())) => (Status::OK, String::new()),
        Some(Err(error)) => (error.status(), error.message().to_owned()),
        None => (Status::PANICKED, cell.take_message()),
    });
    if status != Status::OK {
        // SAFETY: `errors` is null or points to a sink that lives until this returns.
        if let Some(sink) = unsafe { errors.as_ref() } {
            // SAFETY: the sink accepts any UTF-8 during the call.
            unsafe { (sink.write)(sink.ctx, message.as_ptr(), message.len()) };
        }
    }
    status.code()
}
