//! What packages did wrong where nobody waits for an answer: while a kernel is freed.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{INSIDE, PerProcess, Said};

static FAULTS: PerProcess<Mutex<Vec<String>>> = PerProcess::new(Mutex::new(Vec::new()));

/// Notes what came of the function of a package that this thread is in, and of nothing else there.
pub fn note_fault(what: &str, why: &dyn fmt::Display) {
    // SAFETY: the note is one that `during` lent this thread, which has not returned.
    let note = INSIDE.get().map(|note| unsafe { note.as_ref() });
    let text = match note {
        Some(note) => format!("{}: {why}", Said(note.who, what)),
        None => format!("a package {what}: {why}"),
    };
    FAULTS.get().lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

/// What packages did wrong, since this was asked last, where no call could tell: as they were freed. A program that wants to be
/// sure that all went well asks at its end.
pub fn take_faults() -> Vec<String> {
    std::mem::take(&mut *FAULTS.get().lock().unwrap_or_else(PoisonError::into_inner))
}
