//! Says who ended the process, where a package's function calls `exit`: a run that was cut short
//! must not look like one that worked.
//!
//! While a function of a package may run, its thread notes which; a handler that the process runs
//! at its exit looks whether the thread that exits has such a note, prints it, and ends the process
//! with status 1. `signals` prints it where a signal ends the process. A function that leaves by `_exit`, or is killed, is beyond any handler.
//!
//! The same notes tell `watch` where a call does not end.

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
    /// What the thread is in; it has no destructor, so that handlers can still read it.
    static INSIDE: Cell<Option<NonNull<Note<'static>>>> = const { Cell::new(None) };
}

struct Note<'a> {
    who: &'a dyn Who,
}

/// Whose function a thread is in.
pub trait Who: Sync {
    /// Says who it is, and what came of the function.
    ///
    /// # Errors
    /// The text cannot be written.
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result;

    /// What its user can do where it ends the process.
    fn advice(&self) -> &'static str {
        "`--contain PACKAGE` runs a package in a process of its own, where that is an error"
    }

    /// Another number for each function that has the word in turn.
    fn turn(&self) -> usize {
        0
    }
}

/// Who, and what came of the function.
struct Said<'a>(&'a dyn Who, &'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.say(f, self.1)
    }
}

/// Whose function a thread is in; for other threads that work for it.
#[derive(Clone, Copy)]
pub(crate) struct Inside(Option<NonNull<Note<'static>>>);

/// A function of a package, as an exit from within is reported.
#[derive(Clone, Copy, Debug)]
pub struct PackageCall<'a> {
    /// The node that it is called for.
    pub node: &'a str,
    /// The package.
    pub package: &'a str,
    /// The operator's type.
    pub op: &'a str,
    /// Nothing where none is chosen yet.
    pub core: Option<Core>,
    /// The function.
    pub function: &'static str,
}

impl Who for PackageCall<'_> {
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        write!(f, "node {:?}: package {}'s {}", self.node, self.package, self.op)?;
        if let Some(core) = self.core {
            write!(f, " on {core}")?;
        }
        write!(f, " {what} in {}", self.function)
    }

    fn advice(&self) -> &'static str {
        if self.package == BUILTIN {
            "this is a fault of a built-in operator, which is worth a report"
        } else {
            "`--contain PACKAGE` runs a package in a process of its own, where that is an error"
        }
    }
}

/// The name of the package of built-in operators.
const BUILTIN: &str = "builtin";

/// Has the process say who did it when code of a package ends it early: by `exit`, which then is status 1, or by a fault, `abort` or an
/// exception that nothing catches, whose signal still ends it. The `udo` command does so; other programs may. Doing it twice changes nothing.
///
/// # Errors
/// The C library takes no more exit handlers, or the system no handlers of signals.
pub fn install() -> io::Result<()> {
    static DONE: OnceLock<c_int> = OnceLock::new();
    // SAFETY: the handler is a function of this program, which is never unloaded.
    match DONE.get_or_init(|| unsafe { atexit(on_exit) }) {
        0 => signals::install(),
        _ => Err(io::Error::other("the C library takes no more exit handlers")),
    }
}

/// Runs on the thread that exits.
extern "C" fn on_exit() {
    let Some(note) = INSIDE.get() else { return };
    // SAFETY: the note is one that `during` lent this thread, or that of the job it works on; neither
    // has returned, as the thread is exiting from within.
    let who = unsafe { note.as_ref() }.who;
    report(
        &Said(who, "ended the process"),
        "a package returns an error instead; exit is for programs",
    );
    _exit(1)
}

#[expect(clippy::print_stderr, reason = "the process ends here, and nobody is left to tell")]
fn report(what: &dyn fmt::Display, help: &str) {
    eprintln!("error: {what}");
    eprintln!("help: {help}");
}

/// Runs `body`, in which `who` has the word.
pub fn during<R>(who: &dyn Who, body: impl FnOnce() -> R) -> R {
    let note = Note { who };
    let note: NonNull<Note<'static>> = NonNull::from(&note).cast();
    let mut back = Back { to: INSIDE.replace(Some(note)), has_returned: false };
    // SAFETY: the note is there until `during` returns, and so until it is watched no more.
    let _watched = unsafe { watch::Watched::of(note) };
    let result = body();
    back.has_returned = true;
    result
}

/// What this thread is in.
pub(crate) fn inside() -> Inside {
    Inside(INSIDE.get())
}

/// Runs `body` for the thread that is in `inside`.
///
/// # Safety
/// That thread stays in it until `body` has returned.
pub(crate) unsafe fn on_behalf<R>(inside: Inside, body: impl FnOnce() -> R) -> R {
    let mut back = Back { to: INSIDE.replace(inside.0), has_returned: false };
    let result = body();
    back.has_returned = true;
    result
}

/// Puts back what the thread was in, when a panic unwinds as well.
struct Back {
    to: Option<NonNull<Note<'static>>>,
    has_returned: bool,
}

impl Drop for Back {
    fn drop(&mut self) {
        // Without a panic, what unwinds is an exception of another language, which no code of Rust can catch.
        if !self.has_returned && !std::thread::panicking() {
            signals::end_for_exception();
        }
        INSIDE.set(self.to);
    }
}
