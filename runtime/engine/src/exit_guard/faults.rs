//! Faults of packages that no caller waits for, such as those while a kernel is freed.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{INSIDE, Message, PerProcess};

static FAULTS: PerProcess<Mutex<Vec<String>>> = PerProcess::new(Mutex::new(Vec::new()));

/// Records a fault of the package whose function this thread runs.
pub fn note_fault(what: &str, why: &dyn fmt::Display) {
    // SAFETY: `with_record` set the note on this thread and clears it before it returns, so the note is alive.
    let note = INSIDE.get().map(|note| unsafe { note.as_ref() });
    let text = match note {
        Some(note) => format!("{}: {why}", Message(note.who, what)),
        None => format!("a package {what}: {why}"),
    };
    FAULTS.get().lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

/// Returns the faults of packages since the last call that no call could report, such as those while a kernel was freed. A
/// program should check them before it ends.
pub fn take_faults() -> Vec<String> {
    std::mem::take(&mut *FAULTS.get().lock().unwrap_or_else(PoisonError::into_inner))
}
