//! Ends the process if a function of a package does not return, and reports which. Within the process nothing else can be done
//! about it.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{_exit, Message, Note, PerProcess, report};

/// Whether calls are watched; otherwise records cost nothing.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The running calls. A call within another one comes after it.
static INSIDE: PerProcess<Mutex<Vec<Entry>>> = PerProcess::new(Mutex::new(Vec::new()));

struct Entry {
    note: NonNull<Note<'static>>,
    turn: usize,
    since: Instant,
}

// SAFETY: a note is looked at under the lock of the list alone, in which it is only while it is there.
unsafe impl Send for Entry {}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    INSIDE.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// A record that is watched until this value is dropped.
pub(super) struct Watched(Option<NonNull<Note<'static>>>);

impl Watched {
    /// Watches a record, if watching is enabled.
    ///
    /// # Safety
    /// The record must exist until the returned value is dropped.
    pub(super) unsafe fn new(note: NonNull<Note<'static>>) -> Self {
        if !IS_ON.load(Ordering::Relaxed) {
            return Self(None);
        }
        entries().push(Entry { note, turn: usize::MAX, since: Instant::now() });
        Self(Some(note))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(note) = self.0 else { return };
        let mut entries = entries();
        if let Some(at) = entries.iter().rposition(|entry| entry.note == note) {
            entries.remove(at);
        }
    }
}

/// Ends the process with status 1 and reports the function once a function of a package takes longer than `limit`. In a run,
/// each step is a function. Further calls add watchers with other limits; the lowest one counts.
///
/// # Errors
/// Fails if the system cannot create a thread.
pub fn watch(limit: Duration) -> io::Result<()> {
    let started = thread::Builder::new().name("udo-watch".to_owned()).spawn(move || {
        // Frequent enough to be punctual, rare enough to cost nothing.
        let pause = (limit / 20).clamp(Duration::from_millis(1), Duration::from_millis(100));
        loop {
            thread::park_timeout(pause);
            look(limit);
        }
    });
    started.map(|_| IS_ON.store(true, Ordering::Relaxed))
}

fn look(limit: Duration) {
    let mut entries = entries();
    for entry in entries.iter_mut() {
        // SAFETY: it is in the list, whose lock is held, and so it is there.
        let turn = unsafe { entry.note.as_ref() }.who.call_number();
        if entry.turn != turn {
            (entry.turn, entry.since) = (turn, Instant::now());
        }
    }
    // The last one is the innermost.
    let late = entries.iter().rev().find(|entry| entry.since.elapsed() >= limit);
    let Some(late) = late else { return };
    // SAFETY: as above.
    let who = unsafe { late.note.as_ref() }.who;
    let what = format!("has not returned after {limit:?}");
    report(
        &Message(who, &what),
        "run the package contained, or use a debugger to see what it waits for",
    );
    _exit(1)
}
