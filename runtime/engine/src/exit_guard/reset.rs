//! Restores the default actions of signals.

use std::ffi::c_int;

type Handler = Option<extern "C" fn(c_int)>;

// SAFETY: it is the C library's, with the types that POSIX gives it: no handler is the default one.
unsafe extern "C" {
    fn signal(number: c_int, handler: Handler) -> usize;
}

/// The last standard signal of POSIX; the following ones are for applications.
const LAST: c_int = 31;

/// Restores the default action of every signal. Rust's startup code installs a handler for faults, which ignores a fault signal
/// that was raised on purpose, and ignores broken pipes. A parent process may have others ignored.
pub(crate) fn reset_signals() {
    for number in 1..=LAST {
        // SAFETY: no handler is installed, and there are no threads yet. Two signals cannot be handled, which is refused.
        let _before = unsafe { signal(number, None) };
    }
}
