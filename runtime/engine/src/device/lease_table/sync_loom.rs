//! Synchronization primitives of the lease table for tests with `loom`, which explores thread interleavings.

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(super) use loom::thread::yield_now;

/// As many as the models want: loom follows each.
pub(super) const SLOTS: usize = 2;

/// One look shows all that more would.
pub(super) const SPINS: u32 = 1;
