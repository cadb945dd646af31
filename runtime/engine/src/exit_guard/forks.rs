//! Which process this is: a fork makes another one, in which the threads of the one before are not there, and locks that they had stay
//! locked. One without other threads, that is in no call, is copied whole, and the other one goes on as it would.

#[cfg(unix)]
use std::ffi::c_int;
#[cfg(unix)]
use std::sync::Once;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The number of this process.
static PROCESS: AtomicU64 = AtomicU64::new(1);

/// How many calls of the library are under way, as far as they are counted.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Whether the fork that is under way leaves anything behind.
static IS_PARTIAL: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
type Handler = Option<extern "C" fn()>;

#[cfg(unix)]
// SAFETY: it is the C library's, with the types that POSIX gives it.
unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

/// Runs in the thread that forks, before it does.
#[cfg(unix)]
extern "C" fn before() {
    let is_alone = CALLS.load(Ordering::Relaxed) == 0 && threads() == Some(1);
    IS_PARTIAL.store(!is_alone, Ordering::Relaxed);
}

/// How many threads the process has, where the system says so.
#[cfg(unix)]
fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Runs in the only thread of a process that was forked.
#[cfg(unix)]
extern "C" fn in_child() {
    if IS_PARTIAL.load(Ordering::Relaxed) {
        PROCESS.fetch_add(1, Ordering::Relaxed);
        // Those were of threads that are not there, or are left from within.
        CALLS.store(0, Ordering::Relaxed);
    }
}

/// Does what may be in the middle of something when another thread forks.
pub fn in_call<R>(does: impl FnOnce() -> R) -> R {
    struct Counted(u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            // A fork from within has left it.
            if self.0 == PROCESS.load(Ordering::Relaxed) {
                CALLS.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
    CALLS.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(process());
    does()
}

/// The number of this process among those that were forked one of the other since it was first asked for: from 1 on. What was made in a
/// process with another number is of no use in this one.
pub fn process() -> u64 {
    #[cfg(unix)]
    {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            // SAFETY: the handlers are functions of this library, which the C library forgets with it. That of the process that was forked
            // changes numbers and takes no lock.
            let _refused = unsafe { pthread_atfork(Some(before), None, Some(in_child)) };
        });
    }
    PROCESS.load(Ordering::Relaxed)
}

/// What each process has for itself, and all that it makes share. A fork begins with a fresh one, as another thread may have been at the
/// one before, which stays as it was left.
#[derive(Debug)]
pub struct PerProcess<T> {
    /// The process whose it is; 0 before anybody asked.
    of: AtomicU64,
    value: T,
    next: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Made of this for the process that asks first.
    pub const fn new(value: T) -> Self {
        Self { of: AtomicU64::new(0), value, next: OnceLock::new() }
    }
}

impl<T: Default> PerProcess<T> {
    /// That of this process.
    pub fn get(&self) -> &T {
        let (process, mut at) = (process(), self);
        loop {
            let taken = at.of.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() || taken == Err(process) {
                return &at.value;
            }
            at = at.next.get_or_init(|| Box::new(Self::new(T::default())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_process_keeps_its_own() {
        static OWN: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(3));
        *OWN.get().lock().unwrap() += 1;
        assert_eq!(*OWN.get().lock().unwrap(), 4);
        assert_eq!(OWN.of.load(Ordering::Relaxed), process());
    }

    #[test]
    fn another_process_gets_a_fresh_one() {
        let own: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(3));
        // As it is in a process that was forked of the one that had it, while a thread was at it.
        own.of.store(process() + 1, Ordering::Relaxed);
        let _left_locked = own.value.lock().unwrap();
        *own.get().lock().unwrap() += 1;
        assert_eq!(*own.get().lock().unwrap(), 1);
    }
}
