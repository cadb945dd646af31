//! Reports a package when a signal ends the process while one of its functions runs: an invalid memory access, an invalid
//! division, `abort`, or an uncaught C++ exception, which ends in `abort`.
//!
//! The handler prints one line and lets the signal end the process. If no function of a package runs, it restores the previous
//! handler, which then receives the signal: for example that of Rust's standard library for stack overflows.

use std::ffi::{c_int, c_void};
use std::fmt::{self, Write as _};
use std::io;
use std::sync::OnceLock;

use super::{INSIDE, Message};

/// The signals of faults and their descriptions.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "was ended by SIGSEGV, an invalid memory access,"),
    (libc::SIGBUS, "was ended by SIGBUS, an invalid memory access,"),
    (libc::SIGFPE, "was ended by SIGFPE, a division by zero or an overflow,"),
    (libc::SIGILL, "was ended by SIGILL, an instruction that the processor does not have,"),
    (libc::SIGABRT, "was ended by SIGABRT, from abort or an uncaught exception,"),
];

/// The previous handlers, in the order of [`SIGNALS`].
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Installs the handler.
pub(super) fn install() -> io::Result<()> {
    // SAFETY: all bytes of the structure may be zero.
    let mut before: [libc::sigaction; SIGNALS.len()] = unsafe { std::mem::zeroed() };
    for ((signal, _), before) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: the system fills the structure, and changes nothing as no other handler is given.
        if unsafe { libc::sigaction(*signal, std::ptr::null(), before) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // They must be set before a handler can read them. A second installation keeps the first ones.
    if BEFORE.set(before).is_err() {
        return Ok(());
    }
    for (signal, _) in SIGNALS {
        // SAFETY: all bytes of the structure may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        // On the thread's signal stack: its own stack may be the one that overflowed.
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        // SAFETY: the handler calls nothing but `write`, `sigaction`, `raise` and `_exit`, and formats into memory of its own stack.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Runs on the faulting thread.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: with `SA_SIGINFO` the system passes the description of the signal.
    if signal == libc::SIGBUS && unsafe { (*info).si_code } == BUS_ADRERR {
        end_for_truncated_file();
    }
    let at = SIGNALS.iter().position(|(known, _)| *known == signal);
    let what = at.and_then(|at| SIGNALS.get(at)).map_or("was ended by a signal", |(_, what)| what);
    let is_of_package = say(what);
    let before = BEFORE.get().zip(at).and_then(|(all, at)| all.get(at));
    match before {
        // A fault occurs again when the handler returns, and `abort` raises its signal again.
        Some(before) if !is_of_package => {
            // SAFETY: the structure is what the system said of the handler before.
            unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
        }
        Some(_) | None => {
            // SAFETY: the default action has no handler that could be wrong.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            // SAFETY: it only sends the signal, which ends the process when this returns.
            unsafe { libc::raise(signal) };
        }
    }
}

/// The code of SIGBUS for an address that is mapped, but has no memory behind it: the file has become shorter (sigaction(2)).
const BUS_ADRERR: c_int = 2;

/// Reports that another process has truncated a file that is mapped here, as the weights of models are, and ends this one.
fn end_for_truncated_file() {
    let mut line = Line::default();
    let _ = writeln!(
        line,
        "error: a mapped file, such as the weights of a model, was truncated while it was in use\n\
         help: replace files instead of writing over them, or read them with --copy-weights"
    );
    line.print();
    // SAFETY: no handler of the process runs, and it has no more work.
    unsafe { libc::_exit(1) }
}

/// Reports and ends the process for an exception of another language that leaves a function of a package. Does nothing if no
/// handler is installed; then the exception ends the process.
pub(super) fn end_for_exception() {
    if BEFORE.get().is_some() && say("threw an exception, which no caller can catch,") {
        // SAFETY: the default action has no handler that could be wrong.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        std::process::abort();
    }
}

/// Prints what happened to the package whose function this thread runs. Returns whether there is one.
fn say(what: &str) -> bool {
    let Some(note) = INSIDE.get() else { return false };
    // SAFETY: `with_record` set the note on this thread, or on the thread whose job this one works on, and clears it before it
    // returns. This code runs inside that call, so the note is alive.
    let who = unsafe { note.as_ref() }.who;
    let mut line = Line::default();
    // A line that is too long is truncated.
    let _ = writeln!(line, "error: {}; {}", Message(who, what), who.advice());
    line.print();
    true
}

/// A line in a fixed buffer: the heap may be corrupt.
struct Line {
    bytes: [u8; 1024],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 1024], len: 0 }
    }
}

impl Line {
    /// Writes the line to standard error, terminated by a newline.
    fn print(&mut self) {
        let is_full = self.len == self.bytes.len();
        if let Some(last) = self.bytes.last_mut().filter(|_| is_full) {
            *last = b'\n';
        }
        // SAFETY: the bytes are the line's.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.len) };
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let len = text.len().min(room.len());
        for (to, from) in room.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.len += len;
        if len == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_and_ends() {
        let mut line = Line::default();
        assert!(write!(line, "{}", "x".repeat(2_000)).is_err());
        assert_eq!(line.len, 1024);
        let mut line = Line::default();
        assert!(writeln!(line, "node {:?}", "a\"b").is_ok());
        assert_eq!(&line.bytes[..line.len], b"node \"a\\\"b\"\n");
    }
}
