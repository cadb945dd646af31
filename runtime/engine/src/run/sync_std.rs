//! What runs synchronize with: the standard library.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread;

use std::time::Duration;

/// How long a thread that has nothing to do looks before it sleeps, where somebody looks beside it. Another run follows
/// within this time where one is submitted as soon as the one before ended.
pub(super) const SPIN: Duration = Duration::from_micros(30);
