//! Synchronization primitives of the lease table from the standard library.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(super) use std::thread::yield_now;

/// Leases that a memory may have at once: a bit each in a word.
pub(super) const SLOTS: usize = 64;

/// How often to look before another thread gets its turn: some microseconds.
pub(super) const SPINS: u32 = 200;
