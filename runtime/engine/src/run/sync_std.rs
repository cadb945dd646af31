//! The synchronization primitives of runs: the standard library's.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread;

use std::time::Duration;

/// How long an idle thread spins before it sleeps. A run that is submitted as soon as the previous one has ended
/// arrives within this time.
pub(super) const SPIN: Duration = Duration::from_micros(30);
