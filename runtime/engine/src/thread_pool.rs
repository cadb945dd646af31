//! The fork-join thread pool behind every kernel's `Parallel`. After its creation it does not allocate, and it takes
//! no lock while it is busy. Idle workers spin for some microseconds before they sleep.
//!
//! [`Pool`] owns the threads. They share a `team::Team`: the current job, which a `gate::Gate` lets them join, and
//! its calls in `partition::Partitions`. `loom` checks the interleavings of all three (`models.rs`).

mod gate;
mod lanes;
#[cfg(all(test, loom))]
mod models;
mod partition;
#[cfg_attr(all(test, loom), path = "thread_pool/sync_loom.rs")]
#[cfg_attr(not(all(test, loom)), path = "thread_pool/sync_std.rs")]
mod sync;
mod team;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use udo_api::Parallel;
use udo_api::abi::ParallelTable;

pub use lanes::Lanes;
use team::{Job, Task, Team};

/// A pool of threads that share the calls of one parallel-for at a time.
///
/// A parallel-for inside another one, or while another session's is running, runs on its caller's thread.
///
/// ```
/// use std::num::NonZero;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use udo_engine::thread_pool::Pool;
///
/// # fn main() -> Result<(), udo_engine::thread_pool::PoolError> {
/// let pool = Pool::new(NonZero::<usize>::MIN.saturating_add(1))?;
/// let threads = AtomicUsize::new(0);
/// pool.on_every_thread(&|| {
///     threads.fetch_add(1, Ordering::Relaxed);
/// });
/// assert_eq!(threads.into_inner(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Pool {
    team: Arc<Team>,
    table: Box<ParallelTable>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.width())
    }
}

// SAFETY: the one field that is not `Send` is `table`, whose pointer leads to `team`, which threads may share.
unsafe impl Send for Pool {}
// SAFETY: the one field that is not `Sync` is `table`, which nobody writes, and whose pointer leads to `team`.
unsafe impl Sync for Pool {}

/// The reason why a pool cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// More threads than can be useful on this machine.
    #[error(
        "cannot run on {requested} threads, expected at most {most} for one model on this machine"
    )]
    TooMany {
        /// The requested number.
        requested: usize,
        /// The largest number that a pool can have.
        most: usize,
    },
    /// The system refuses to create more threads.
    #[error("cannot run on {requested} threads: the system creates only {given}")]
    Refused {
        /// The requested number.
        requested: usize,
        /// The number of threads when the system refused one, including the caller's.
        given: usize,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// The number of threads that a pool can have on any machine.
const THREADS_EVERYWHERE: usize = 64;

thread_local! {
    /// Whether the thread executes calls of a parallel-for.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as executing calls of a parallel-for. Restores the mark when dropped.
struct InParallel(bool);

impl InParallel {
    fn enter() -> Self {
        Self(INSIDE.replace(true))
    }
}

impl Drop for InParallel {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

impl Pool {
    /// Returns the largest number of threads of a pool: four per processor, at least 64.
    pub fn most_threads() -> usize {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        processors.saturating_mul(4).max(THREADS_EVERYWHERE)
    }

    /// The default time that idle threads spin before they sleep: a few times the time to wake one.
    pub const SPIN: Duration = Duration::from_micros(100);

    /// Creates a pool of `threads` threads. The caller of each parallel-for is one of them.
    ///
    /// # Errors
    /// Fails for more threads than [`Pool::most_threads`], or than the system can create.
    pub fn new(threads: NonZero<usize>) -> Result<Self, PoolError> {
        Self::spinning(threads, Self::SPIN)
    }

    /// Creates a pool as [`Pool::new`] does, with threads that spin for `spin` before they sleep.
    ///
    /// # Errors
    /// Fails as [`Pool::new`] does.
    pub fn spinning(threads: NonZero<usize>, spin: Duration) -> Result<Self, PoolError> {
        let requested = threads.get();
        // Counting processors reads several files, so it is done only if it matters.
        if requested > THREADS_EVERYWHERE && requested > Self::most_threads() {
            return Err(PoolError::TooMany { requested, most: Self::most_threads() });
        }
        Self::started_by(threads, spin, |index, body| {
            thread::Builder::new().name(format!("udo-worker-{index}")).spawn(body)
        })
    }

    /// Creates a pool whose workers `start` starts.
    fn started_by(
        threads: NonZero<usize>,
        spin: Duration,
        mut start: impl FnMut(usize, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>,
    ) -> Result<Self, PoolError> {
        let requested = threads.get();
        let team = Arc::new(Team::new(requested, spins_in(spin)));
        let table = Box::new(ParallelTable {
            size: ParallelTable::SIZE,
            width: u32::try_from(requested).unwrap_or(u32::MAX),
            ctx: Arc::as_ptr(&team).cast(),
            run,
            stop: std::ptr::null(),
            reserved_words: [0; 3],
        });
        let mut pool = Self { team, table, workers: Vec::with_capacity(requested - 1) };
        for index in 1..requested {
            let team = Arc::clone(&pool.team);
            let body = Box::new(move || {
                let _inside = InParallel::enter();
                team.serve(index);
            });
            // The caller's thread exists already.
            let refused = |source| PoolError::Refused { requested, given: index, source };
            pool.workers.push(start(index, body).map_err(refused)?);
        }
        // Starting threads allocate. Wait until all have started, before allocations are counted.
        pool.on_every_thread(&|| ());
        Ok(pool)
    }

    /// Calls `body` once on every thread of the pool, including this one.
    pub fn on_every_thread(&self, body: &(dyn Fn() + Sync)) {
        let meeting = Meeting { body, threads: self.width(), present: AtomicUsize::new(0) };
        let ctx = (&raw const meeting).cast();
        let job = Job::new(attend, ctx, self.width());
        // SAFETY: `attend` takes any number and a `Meeting`, which this one is until `submit` returns.
        while !unsafe { self.team.submit(job) } {
            thread::yield_now();
        }
    }

    /// Returns the number of threads.
    pub fn width(&self) -> usize {
        self.workers.len() + 1
    }

    /// Returns the parallel-for for kernels.
    pub fn parallel(&self) -> Parallel<'_> {
        let table = self.shared_table();
        // SAFETY: `table.run` is `run`, and `table.ctx` the team that it wants, which lives while `self` is borrowed.
        unsafe { Parallel::from_table(table) }
    }

    /// Returns the table for kernels. Its address is valid as long as the pool.
    pub fn table(&self) -> *const ParallelTable {
        self.shared_table().map_or(std::ptr::null(), |table| &raw const *table)
    }

    /// Returns a copy of the table, in which the stop word can be set. It is valid as long as the pool.
    pub fn table_of_its_own(&self) -> ParallelTable {
        let ParallelTable { size, width, ctx, run, stop, reserved_words } = *self.table;
        ParallelTable { size, width, ctx, run, stop, reserved_words }
    }

    /// Returns the table while the pool is borrowed; `None` for a pool without workers.
    pub fn shared_table(&self) -> Option<&ParallelTable> {
        (!self.workers.is_empty()).then_some(&*self.table)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.team.close();
        for worker in self.workers.drain(..) {
            // Workers run tasks that catch their panics, so there is no panic to propagate.
            drop(worker.join());
        }
    }
}

/// Returns the number of checks in a time: about 40 per microsecond.
fn spins_in(spin: Duration) -> u32 {
    u32::try_from(spin.as_micros().saturating_mul(40)).unwrap_or(u32::MAX)
}

/// A job with as many calls as threads, each of which waits for the others. So each thread gets exactly one call.
struct Meeting<'a> {
    body: &'a (dyn Fn() + Sync),
    threads: usize,
    present: AtomicUsize,
}

/// # Safety
/// `ctx` points to a [`Meeting`].
// SAFETY: a team alone calls it, with the `Meeting` that it was started for.
unsafe extern "C" fn attend(ctx: *const c_void, _: usize) {
    // SAFETY: `ctx` points to a `Meeting`, as the caller promises.
    let meeting = unsafe { &*ctx.cast::<Meeting<'_>>() };
    meeting.present.fetch_add(1, Ordering::AcqRel);
    while meeting.present.load(Ordering::Acquire) < meeting.threads {
        thread::yield_now();
    }
    (meeting.body)();
}

/// `[execute-time, heap-free]` The parallel-for in [`ParallelTable`].
///
/// # Safety
/// `ctx` points to the [`Team`] of a pool that lives, and `task` may be called on any thread with `task_ctx` and
/// a number below `count` until this returns.
// SAFETY: called by way of the pool's table alone, whose `ctx` is its team.
unsafe extern "C" fn run(ctx: *const c_void, count: usize, task: Task, task_ctx: *const c_void) {
    // SAFETY: `ctx` points to a `Team`, as the caller promises.
    let team = unsafe { &*ctx.cast::<Team>() };
    let is_nested = INSIDE.get();
    let _inside = InParallel::enter();
    let job = Job::new(task, task_ctx, count);
    // SAFETY: the caller guarantees `task` with `task_ctx` and numbers below `count` until this returns.
    if is_nested || !unsafe { team.submit(job) } {
        for index in 0..count {
            // SAFETY: as the caller promises, with an `index` below `count`.
            unsafe { task(task_ctx, index) };
        }
    }
}
