//! The parallel-for table of a session whose runs can be stopped: it tells kernels when a run is cancelled.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::AtomicU32;

use udo_api::abi::ParallelTable;

use super::Executor;
use udo_engine::thread_pool::Pool;

/// A table at a fixed address; the pool's own table has no stop flag.
pub(super) struct Stoppable(Box<UnsafeCell<ParallelTable>>);

impl Stoppable {
    fn new(pool: &Pool) -> Self {
        Self(Box::new(UnsafeCell::new(pool.table_of_its_own())))
    }

    /// Runs `body`, whose kernels check `stop`.
    fn during<R>(&self, stop: &AtomicU32, body: impl FnOnce() -> R) -> R {
        self.look_at(stop.as_ptr());
        let _back = Back(self);
        body()
    }

    fn look_at(&self, stop: *const u32) {
        // SAFETY: only kernels read the table, and the session that it belongs to runs none while this is called.
        unsafe { (*self.0.get()).stop = stop };
    }
}

/// Removes the stop flag again, also if a panic unwinds.
struct Back<'a>(&'a Stoppable);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.look_at(ptr::null());
    }
}

impl Executor {
    /// Makes kernels check the flag that [`Executor::run_part`] gets.
    pub(crate) fn make_stoppable(&mut self) {
        if self.stoppable.is_some() {
            return;
        }
        let stoppable = Stoppable::new(&self.pool);
        for args in &mut self.args {
            args.parallel = stoppable.0.get();
        }
        self.stoppable = Some(stoppable);
        self.point_calls();
    }

    /// Runs `body`, whose kernels check `stop` if the session is stoppable.
    pub(super) fn stopped_by<R>(&self, stop: &AtomicU32, body: impl FnOnce() -> R) -> R {
        match &self.stoppable {
            Some(stoppable) => stoppable.during(stop, body),
            None => body(),
        }
    }
}
