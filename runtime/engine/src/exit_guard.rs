//! Reports a package that ends the process from one of its functions, so that an aborted run does not look like a successful one.
//!
//! While a function of a package runs, its thread records the package and the function. An exit handler prints the record of the
//! exiting thread and ends the process with status 1. `signals` prints it if a signal ends the process. A function that calls
//! `_exit` or is killed cannot be reported.
//!
//! `watch` uses the same records to find calls that do not return.

mod faults;
mod forks;
#[cfg(target_os = "linux")]
mod reset;
mod signals;
mod watch;

use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;

use udo_api::Core;

pub use faults::note_fault;
pub use faults::take_faults;
pub use forks::PerProcess;
pub use forks::{in_call, process};
#[cfg(target_os = "linux")]
pub(crate) use reset::reset_signals;
pub use watch::watch;

// SAFETY: both are the C library's, with the types that POSIX gives them.
unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> c_int;
    safe fn _exit(status: c_int) -> !;
}

thread_local! {
    /// The record of the thread's current call. It has no destructor, so that handlers can still read it.
    static INSIDE: Cell<Option<NonNull<Note<'static>>>> = const { Cell::new(None) };
}

struct Note<'a> {
    who: &'a dyn CallOwner,
}

/// The owner of the function that a thread runs.
pub trait CallOwner: Sync {
    /// Writes who it is and what happened.
    ///
    /// # Errors
    /// Fails if the text cannot be written.
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result;

    /// Returns advice for the user if it ends the process.
    fn advice(&self) -> &'static str {
        "`--contain PACKAGE` runs a package in a worker process, where this is reported as an error"
    }

    /// Returns a number that changes with each function that runs under this record.
    fn progress(&self) -> usize {
        0
    }
}

/// Formats who and what happened.
struct Message<'a>(&'a dyn CallOwner, &'a str);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.say(f, self.1)
    }
}

/// The record of a thread's current call, for other threads that work for it.
#[derive(Clone, Copy)]
pub(crate) struct CurrentCall(Option<NonNull<Note<'static>>>);

/// A call of a package's function, as it is reported.
#[derive(Clone, Copy, Debug)]
pub struct PackageCall<'a> {
    /// The node that the function is called for.
    pub node: &'a str,
    /// The package.
    pub package: &'a str,
    /// The operator's type.
    pub op: &'a str,
    /// The core; `None` if it has not been chosen yet.
    pub core: Option<Core>,
    /// The function.
    pub function: &'static str,
}

impl CallOwner for PackageCall<'_> {
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        write!(f, "node {:?}: package {}'s {}", self.node, self.package, self.op)?;
        if let Some(core) = self.core {
            write!(f, " on {core}")?;
        }
        write!(f, " {what} in {}", self.function)
    }

    fn advice(&self) -> &'static str {
        if self.package == BUILTIN {
            "this is a bug of a built-in operator; please report it"
        } else {
            "`--contain PACKAGE` runs a package in a worker process, where this is reported as an error"
        }
    }
}

/// The name of the package of built-in operators.
const BUILTIN: &str = "builtin";

/// Makes the process report code of a package that ends it: by `exit`, which then has status 1, or by a fault, `abort` or an
/// uncaught exception, whose signal still ends it. The `udo` command calls this, and other programs may. Further calls have no
/// effect.
///
/// # Errors
/// Fails if the C library accepts no more exit handlers, or the system no signal handlers.
pub fn install() -> io::Result<()> {
    static DONE: OnceLock<c_int> = OnceLock::new();
    // SAFETY: the handler is a function of this program, which is never unloaded.
    match DONE.get_or_init(|| unsafe { atexit(on_exit) }) {
        0 => signals::install(),
        _ => Err(io::Error::other("the C library accepts no more exit handlers")),
    }
}

/// Runs on the exiting thread.
extern "C" fn on_exit() {
    let Some(note) = INSIDE.get() else { return };
    // SAFETY: `with_record` set the note on this thread, or on the thread whose job this one works on, and clears it before it
    // returns. The thread exits inside that call, so the note is alive.
    let who = unsafe { note.as_ref() }.who;
    report(
        &Message(who, "ended the process"),
        "a package must return an error instead of calling exit",
    );
    _exit(1)
}

#[expect(clippy::print_stderr, reason = "the process ends here, and nobody is left to tell")]
fn report(what: &dyn fmt::Display, help: &str) {
    eprintln!("error: {what}");
    eprintln!("help: {help}");
}

/// Runs `body` and records that this thread runs a function of `who`.
pub fn with_record<R>(who: &dyn CallOwner, body: impl FnOnce() -> R) -> R {
    let note = Note { who };
    let note: NonNull<Note<'static>> = NonNull::from(&note).cast();
    let mut restore = Restore { to: INSIDE.replace(Some(note)), has_returned: false };
    // SAFETY: `_watched` is dropped before `note`, when this function returns.
    let _watched = unsafe { watch::Watched::new(note) };
    let result = body();
    restore.has_returned = true;
    result
}

/// Returns the record of this thread's current call.
pub(crate) fn current_call() -> CurrentCall {
    CurrentCall(INSIDE.get())
}

/// Runs `body` with the record of the thread that it works for.
///
/// # Safety
/// That thread must not leave its call until `body` has returned.
pub(crate) unsafe fn on_behalf<R>(call: CurrentCall, body: impl FnOnce() -> R) -> R {
    let mut restore = Restore { to: INSIDE.replace(call.0), has_returned: false };
    let result = body();
    restore.has_returned = true;
    result
}

/// Restores the record of the thread, also if a panic unwinds.
struct Restore {
    to: Option<NonNull<Note<'static>>>,
    has_returned: bool,
}

impl Drop for Restore {
    fn drop(&mut self) {
        // Without a panic, an exception of another language unwinds, which Rust code cannot catch.
        if !self.has_returned && !std::thread::panicking() {
            signals::end_for_exception();
        }
        INSIDE.set(self.to);
    }
}
