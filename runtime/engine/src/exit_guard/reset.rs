//! Signals that end the process, as they do where nobody handles them.

use std::ffi::c_int;

type Handler = Option<extern "C" fn(c_int)>;

// SAFETY: it is the C library's, with the types that POSIX gives it: no handler is the default one.
unsafe extern "C" {
    fn signal(number: c_int, handler: Handler) -> usize;
}

/// The signals of POSIX; those behind them are for programs.
const LAST: c_int = 31;

/// Has each signal do what the system does by default. The start of a Rust program has a handler for faults, which takes a fault that
/// somebody raised for none and goes on, and ignores closed pipes; and who started it may ignore others.
pub(crate) fn reset_signals() {
    for number in 1..=LAST {
        // SAFETY: no handler is installed, and there are no threads yet. Two signals cannot be handled, which is refused.
        let _before = unsafe { signal(number, None) };
    }
}
