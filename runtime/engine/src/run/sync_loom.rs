//! What runs synchronize with while `loom` tries the orders that threads may run in.

pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize};
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(super) use loom::thread;

use std::time::Duration;

/// Who has nothing to do sleeps: looking would be another order for each look.
pub(super) const SPIN: Duration = Duration::ZERO;
