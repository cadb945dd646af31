//! Admission of threads to the current job, and waiting for it.

use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, PoisonError, spin_loop};

/// Workers may join the job.
const OPEN: u64 = 1 << 31;
/// The submitter sleeps until the last worker leaves.
const AWAITED: u64 = 1 << 30;
/// A worker may be asleep.
const SLEEPERS: u64 = 1 << 29;
/// There will be no more jobs.
const CLOSED: u64 = 1 << 28;
/// The number of workers that have joined.
const JOINED: u64 = CLOSED - 1;

/// Returns the number of the job.
fn number(word: u64) -> u64 {
    word >> 32
}

/// Admits workers to one job at a time.
///
/// One word holds the whole state: the job's number in the upper half, four flags, and the number of joined
/// workers. A worker joins by adding one to a word with `OPEN` set. The submitter clears `OPEN`, so that no
/// more workers join, and waits until the count is 0. So a job is never replaced while a worker reads it,
/// and no thread waits for sleeping workers.
///
/// Every change is a read-modify-write, so all changes have a single order, and each sees the earlier ones.
/// A thread that goes to sleep first sets a flag in the word, under the lock. A thread that changes the word
/// and finds the flag takes the lock to wake it. So no wake-up is lost, without sequentially consistent
/// operations.
pub(super) struct Gate {
    word: AtomicU64,
    lock: Mutex<()>,
    /// Signals a new job or the end of jobs.
    wake: Condvar,
    /// Signals that the last worker has left.
    empty: Condvar,
    /// The number of checks before sleeping.
    spins: u32,
}

impl Gate {
    /// Creates a closed gate. Waiting threads check `spins` times before they sleep.
    pub(super) fn new(spins: u32) -> Self {
        Self {
            word: AtomicU64::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            empty: Condvar::new(),
            spins,
        }
    }

    /// Locks the mutex. It guards no data, and nothing under it can panic.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the gate for the next job and wakes sleeping workers. Workers that join see all earlier writes
    /// of this thread. The gate must be shut, and only one thread at a time may call this.
    pub(super) fn open(&self) {
        let next = number(self.word.load(Ordering::Relaxed)).wrapping_add(1) << 32;
        if self.word.swap(next | OPEN, Ordering::AcqRel) & SLEEPERS != 0 {
            let _guard = self.lock();
            self.wake.notify_all();
        }
    }

    /// Shuts the gate and waits until all joined workers have left. This thread then sees all their writes.
    pub(super) fn shut(&self) {
        let mut word = self.word.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while word & JOINED != 0 {
            if spins == self.spins {
                return self.sleep_until_empty();
            }
            spins += 1;
            spin_loop();
            word = self.word.load(Ordering::Acquire);
        }
    }

    fn sleep_until_empty(&self) {
        let mut guard = self.lock();
        // The next `open` clears the flag.
        let mut word = self.word.fetch_or(AWAITED, Ordering::AcqRel);
        while word & JOINED != 0 {
            guard = self.empty.wait(guard).unwrap_or_else(PoisonError::into_inner);
            word = self.word.load(Ordering::Acquire);
        }
    }

    /// Ends the workers. The gate must be shut and stay so.
    pub(super) fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        let _guard = self.lock();
        self.wake.notify_all();
    }

    /// Waits for a job with another number than `seen` and joins it. Returns false if there will be no more
    /// jobs.
    pub(super) fn join(&self, seen: &mut u64) -> bool {
        let mut spins = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & CLOSED != 0 {
                return false;
            }
            if is_new(word, *seen) {
                let joined =
                    self.word.compare_exchange(word, word + 1, Ordering::AcqRel, Ordering::Relaxed);
                if joined.is_ok() {
                    *seen = number(word);
                    return true;
                }
            }
            if spins == self.spins {
                self.sleep(*seen);
                spins = 0;
            } else {
                spins += 1;
                spin_loop();
            }
        }
    }

    fn sleep(&self, seen: u64) {
        let mut guard = self.lock();
        let over = |word| word & CLOSED != 0 || is_new(word, seen);
        // Set only if there is nothing to do: it makes opening the gate more expensive.
        while !over(self.word.load(Ordering::Acquire))
            && !over(self.word.fetch_or(SLEEPERS, Ordering::AcqRel))
        {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves the joined job.
    pub(super) fn leave(&self) {
        let word = self.word.fetch_sub(1, Ordering::AcqRel);
        if word & JOINED == 1 && word & AWAITED != 0 {
            let _guard = self.lock();
            self.empty.notify_all();
        }
    }
}

fn is_new(word: u64, seen: u64) -> bool {
    word & OPEN != 0 && number(word) != seen
}
