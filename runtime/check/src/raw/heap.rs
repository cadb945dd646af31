//! Watches the heap of the process: the C library's allocator calls pass through here, so that allocations of packages
//! in any language are counted on watched threads.
//!
//! The functions are exported from the program that this crate is linked into. Libraries that it opens find them before
//! those of the C library.

use std::cell::Cell;

/// The heap use of a watched thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Calls of the allocator.
    pub(crate) calls: u64,
    /// The bytes of the first call.
    pub(crate) first_bytes: usize,
    /// Bytes allocated and not freed.
    pub(crate) kept_bytes: i64,
}

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static USE: Cell<Use> = const { Cell::new(Use { calls: 0, first_bytes: 0, kept_bytes: 0 }) };
}

/// Whether this program's allocator can be watched.
pub(crate) const CAN_WATCH: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// Runs `body` and returns this thread's heap use during it.
pub(crate) fn watched<R>(body: impl FnOnce() -> R) -> (R, Use) {
    let before = (USE.replace(Use::default()), IS_WATCHED.replace(true));
    let result = body();
    IS_WATCHED.set(before.1);
    (result, USE.replace(before.0))
}

/// Whether this thread is watched.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn is_watched() -> bool {
    IS_WATCHED.get()
}

/// Adds to this thread's heap use.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn add(other: Use) {
    let mut of = USE.get();
    if of.calls == 0 {
        of.first_bytes = other.first_bytes;
    }
    of.calls += other.calls;
    of.kept_bytes += other.kept_bytes;
    USE.set(of);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn note(bytes: usize, kept: i64) {
    if IS_WATCHED.get() {
        add(Use { calls: 1, first_bytes: bytes, kept_bytes: kept });
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn the_heap_is_counted_while_it_is_watched() {
        let (kept, first) = watched(|| std::hint::black_box(vec![1u8; 1000]));
        assert_eq!((first.calls, first.first_bytes), (1, 1000));
        assert!(first.kept_bytes >= 1000, "{first:?}");
        let ((), second) = watched(|| drop(kept));
        assert_eq!((second.calls, second.kept_bytes), (1, -first.kept_bytes));
    }
}
