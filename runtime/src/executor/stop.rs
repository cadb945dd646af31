//! The parallel-for of a session whose runs may be stopped: kernels see in it that nobody wants their results any more.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::AtomicU32;

use udo_api::abi::ParallelTable;

use super::Executor;
use udo_engine::thread_pool::Pool;

/// A table of its own, at one address: that of the pool says nothing of any run.
pub(super) struct Stoppable(Box<UnsafeCell<ParallelTable>>);

impl Stoppable {
    fn new(pool: &Pool) -> Self {
        Self(Box::new(UnsafeCell::new(pool.table_of_its_own())))
    }

    /// Runs `body`, whose kernels look at `stop`.
    fn during<R>(&self, stop: &AtomicU32, body: impl FnOnce() -> R) -> R {
        self.look_at(stop.as_ptr());
        let _back = Back(self);
        body()
    }

    fn look_at(&self, stop: *const u32) {
        // SAFETY: kernels alone read the table, and the session that it belongs to runs none while this is called.
        unsafe { (*self.0.get()).stop = stop };
    }
}

/// Has kernels look at nothing again, when a panic unwinds as well.
struct Back<'a>(&'a Stoppable);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.look_at(ptr::null());
    }
}

impl Executor {
    /// Has kernels look at what [`Executor::run_part`] is given.
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

    /// Runs `body`, whose kernels look at `stop`, if this was made stoppable.
    pub(super) fn stopped_by<R>(&self, stop: &AtomicU32, body: impl FnOnce() -> R) -> R {
        match &self.stoppable {
            Some(stoppable) => stoppable.during(stop, body),
            None => body(),
        }
    }
}
