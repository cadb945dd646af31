//! Who may be at the job in hand, and how threads wait for each other.

use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, PoisonError, spin_loop};

/// Workers may join the job.
const OPEN: u64 = 1 << 31;
/// The submitter sleeps until the last worker leaves.
const AWAITED: u64 = 1 << 30;
/// Some worker may be asleep.
const SLEEPERS: u64 = 1 << 29;
/// There will be no more jobs.
const CLOSED: u64 = 1 << 28;
/// How many workers have joined.
const JOINED: u64 = CLOSED - 1;

/// The number of the job.
fn number(word: u64) -> u64 {
    word >> 32
}

/// Lets workers in to one job at a time.
///
/// One word says everything: the job's number in the upper half, four flags, and how many workers have
/// joined. A worker joins by adding one to a word that is open. The submitter takes the flag away, so
/// that nobody joins any more, and waits for the count to fall to 0. So a job is never replaced while
/// somebody reads it, and nobody waits for workers that sleep.
///
/// Every change is a read-modify-write, so they all lie in one order, and each sees those before it. Who
/// goes to sleep says so in the word first, under the lock; who changes the word and finds that said takes
/// the lock to wake them. So no wake-up is missed, without any operation that is sequentially consistent.
pub(super) struct Gate {
    word: AtomicU64,
    lock: Mutex<()>,
    /// A job came, or there will be none.
    wake: Condvar,
    /// The last worker left.
    empty: Condvar,
    /// How often to look before going to sleep.
    spins: u32,
}

impl Gate {
    /// A gate that is shut, where who waits looks `spins` times before it sleeps.
    pub(super) fn new(spins: u32) -> Self {
        Self {
            word: AtomicU64::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            empty: Condvar::new(),
            spins,
        }
    }

    /// Nothing that can panic runs under the lock, and it guards no data.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the gate for the next job and wakes who sleeps. What this thread wrote before is seen by
    /// those who join. Only for a gate that is shut, by one thread at a time.
    pub(super) fn open(&self) {
        let next = number(self.word.load(Ordering::Relaxed)).wrapping_add(1) << 32;
        if self.word.swap(next | OPEN, Ordering::AcqRel) & SLEEPERS != 0 {
            let _guard = self.lock();
            self.wake.notify_all();
        }
    }

    /// Shuts the gate and waits until everybody who joined has left. What they wrote is seen by this thread.
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
        // The next `open` takes the flag away again.
        let mut word = self.word.fetch_or(AWAITED, Ordering::AcqRel);
        while word & JOINED != 0 {
            guard = self.empty.wait(guard).unwrap_or_else(PoisonError::into_inner);
            word = self.word.load(Ordering::Acquire);
        }
    }

    /// Lets the workers go home. Only for a gate that is shut and stays so.
    pub(super) fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        let _guard = self.lock();
        self.wake.notify_all();
    }

    /// Waits for a job that is not the one numbered `seen`, and joins it; false if there will be none.
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
        // Said in the word only if there is nothing to do: who opens the gate pays for it.
        while !over(self.word.load(Ordering::Acquire))
            && !over(self.word.fetch_or(SLEEPERS, Ordering::AcqRel))
        {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves the job that `join` joined.
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
