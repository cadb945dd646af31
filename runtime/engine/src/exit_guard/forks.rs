//! Detects forks. In a forked process the other threads do not exist, and locks that they held stay locked. A process with a
//! single thread that is in no call is copied completely and continues normally.

#[cfg(unix)]
use std::ffi::c_int;
#[cfg(unix)]
use std::sync::Once;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The number of this process.
static PROCESS: AtomicU64 = AtomicU64::new(1);

/// The number of running calls of the library that are counted.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Whether the current fork leaves threads or calls behind.
static IS_PARTIAL: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
type Handler = Option<extern "C" fn()>;

#[cfg(unix)]
// SAFETY: it is the C library's, with the types that POSIX gives it.
unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

/// Runs in the forking thread before the fork.
#[cfg(unix)]
extern "C" fn before() {
    let is_alone = CALLS.load(Ordering::Relaxed) == 0 && threads() == Some(1);
    IS_PARTIAL.store(!is_alone, Ordering::Relaxed);
}

/// Returns the number of threads of the process, if the system reports it.
#[cfg(unix)]
fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Runs in the only thread of a forked process.
#[cfg(unix)]
extern "C" fn in_child() {
    if IS_PARTIAL.load(Ordering::Relaxed) {
        PROCESS.fetch_add(1, Ordering::Relaxed);
        // The calls belong to threads that do not exist here, or are abandoned by the fork.
        CALLS.store(0, Ordering::Relaxed);
    }
}

/// Runs `does`, which must not be interrupted by a fork of another thread.
pub fn in_call<R>(does: impl FnOnce() -> R) -> R {
    struct Counted(u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            // Not in a process that was forked from within `does`.
            if self.0 == PROCESS.load(Ordering::Relaxed) {
                CALLS.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
    CALLS.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(process());
    does()
}

/// Returns the number of this process in its chain of forks, starting at 1. Objects that were created in a process with another
/// number must not be used in this one.
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

/// A value that every process has its own instance of. A forked process gets a new instance, because another thread may have been
/// using the old one, which is left as it was.
#[derive(Debug)]
pub struct PerProcess<T> {
    /// The number of the process that owns the value; 0 before the first use.
    of: AtomicU64,
    value: T,
    next: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Creates the value of the first process that uses it.
    pub const fn new(value: T) -> Self {
        Self { of: AtomicU64::new(0), value, next: OnceLock::new() }
    }
}

impl<T: Default> PerProcess<T> {
    /// Returns the value of this process.
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
