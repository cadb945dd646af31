//! The synchronization primitives of the pool under `loom`.

pub(super) use loom::cell::UnsafeCell;
pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::sync::PoisonError;
