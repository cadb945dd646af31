//! The synchronization primitives of runs under `loom`.

pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize};
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(super) use loom::thread;

use std::time::Duration;

/// No spinning: each check would be another interleaving.
pub(super) const SPIN: Duration = Duration::ZERO;
