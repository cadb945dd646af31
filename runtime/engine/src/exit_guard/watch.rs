//! Ends the process where a function of a package does not end, and says which: nothing else can be done about it in the process
//! that it runs in.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{_exit, Note, PerProcess, Said, report};

/// Whether anybody watches: else notes cost nothing.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// What threads are in, those that are called by others behind them.
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

/// A note that is watched until this goes.
pub(super) struct Watched(Option<NonNull<Note<'static>>>);

impl Watched {
    /// Watches the note, if anybody does.
    ///
    /// # Safety
    /// The note is there until this has gone.
    pub(super) unsafe fn of(note: NonNull<Note<'static>>) -> Self {
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

/// Has the process end with status 1, and say where it hangs, once a function of a package has taken longer than `limit`. In a
/// run that is the function of one step. A later call sets another limit for what it watches itself; the lower one counts.
///
/// # Errors
/// The system gives no thread.
pub fn watch(limit: Duration) -> io::Result<()> {
    let started = thread::Builder::new().name("udo-watch".to_owned()).spawn(move || {
        // Often enough to be on time, and seldom enough to be no work.
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
        let turn = unsafe { entry.note.as_ref() }.who.turn();
        if entry.turn != turn {
            (entry.turn, entry.since) = (turn, Instant::now());
        }
    }
    // The last one is the innermost.
    let late = entries.iter().rev().find(|entry| entry.since.elapsed() >= limit);
    let Some(late) = late else { return };
    // SAFETY: as above.
    let who = unsafe { late.note.as_ref() }.who;
    let what = format!("has not ended after {limit:?}");
    report(
        &Said(who, &what),
        "run the package contained, or look with a debugger what it waits for",
    );
    _exit(1)
}
