//! The fork-join thread pool behind every kernel's `Parallel`: no heap once it stands, and no lock while it is
//! busy. Workers spin for some microseconds before they sleep.
//!
//! [`Pool`] owns the threads. They share a `team::Team`: the job in hand, which a `gate::Gate` lets them in
//! to, and its calls in `partition::Partitions`. `loom` tries the interleavings of all three (`models.rs`).

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

/// Threads that share out the calls of one parallel-for at a time.
///
/// A parallel-for inside another, or while another session's is running, runs on its caller.
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

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// More threads than are of use on any machine like this one.
    #[error("cannot run on {wanted} threads: this machine runs at most {most} for one model")]
    TooMany {
        /// How many were asked for.
        wanted: usize,
        /// How many a pool can have.
        most: usize,
    },
    /// The system gives fewer.
    #[error("cannot run on {wanted} threads: the system gives {given}")]
    Refused {
        /// How many were asked for.
        wanted: usize,
        /// How many there were when the system refused one, the caller's included.
        given: usize,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// As many threads a pool can have on any machine.
const THREADS_EVERYWHERE: usize = 64;

thread_local! {
    /// Whether the thread runs calls of a parallel-for.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running calls of a parallel-for, and puts the mark back as it was.
struct Inside(bool);

impl Inside {
    fn enter() -> Self {
        Self(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

impl Pool {
    /// The most threads that a pool can have here: four for each processor, and 64 at least.
    pub fn most_threads() -> usize {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        processors.saturating_mul(4).max(THREADS_EVERYWHERE)
    }

    /// How long threads look for work before they sleep where nothing is said: a few times what waking up takes.
    pub const SPIN: Duration = Duration::from_micros(100);

    /// A pool of `threads` threads, the caller of each parallel-for being one of them.
    ///
    /// # Errors
    /// More threads than [`Pool::most_threads`], or than the system gives.
    pub fn new(threads: NonZero<usize>) -> Result<Self, PoolError> {
        Self::spinning(threads, Self::SPIN)
    }

    /// As [`Pool::new`], with threads that look for work for some `spin` before they sleep.
    ///
    /// # Errors
    /// As there.
    pub fn spinning(threads: NonZero<usize>, spin: Duration) -> Result<Self, PoolError> {
        let wanted = threads.get();
        // What the machine has takes several files to be read, so that it is only asked where that matters.
        if wanted > THREADS_EVERYWHERE && wanted > Self::most_threads() {
            return Err(PoolError::TooMany { wanted, most: Self::most_threads() });
        }
        Self::started_by(threads, spin, |index, body| {
            thread::Builder::new().name(format!("udo-worker-{index}")).spawn(body)
        })
    }

    /// As [`Pool::new`], with workers that `start` starts.
    fn started_by(
        threads: NonZero<usize>,
        spin: Duration,
        mut start: impl FnMut(usize, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>,
    ) -> Result<Self, PoolError> {
        let wanted = threads.get();
        let team = Arc::new(Team::new(wanted, looks(spin)));
        let table = Box::new(ParallelTable {
            size: ParallelTable::SIZE,
            width: u32::try_from(wanted).unwrap_or(u32::MAX),
            ctx: Arc::as_ptr(&team).cast(),
            run,
            stop: std::ptr::null(),
            reserved_words: [0; 3],
        });
        let mut pool = Self { team, table, workers: Vec::with_capacity(wanted - 1) };
        for index in 1..wanted {
            let team = Arc::clone(&pool.team);
            let body = Box::new(move || {
                let _inside = Inside::enter();
                team.serve(index);
            });
            // The caller is there already.
            let refused = |source| PoolError::Refused { wanted, given: index, source };
            pool.workers.push(start(index, body).map_err(refused)?);
        }
        // A thread that starts uses the heap, so that is over before anybody counts.
        pool.on_every_thread(&|| ());
        Ok(pool)
    }

    /// Calls `body` once on every thread of the pool, this one included.
    pub fn on_every_thread(&self, body: &(dyn Fn() + Sync)) {
        let meeting = Meeting { body, wanted: self.width(), present: AtomicUsize::new(0) };
        let ctx = (&raw const meeting).cast();
        let job = Job::new(attend, ctx, self.width());
        // SAFETY: `attend` takes any number and a `Meeting`, which this one is until `submit` returns.
        while !unsafe { self.team.submit(job) } {
            thread::yield_now();
        }
    }

    /// How many threads work at once.
    pub fn width(&self) -> usize {
        self.workers.len() + 1
    }

    /// The parallel-for that kernels get.
    pub fn parallel(&self) -> Parallel<'_> {
        let table = self.shared_table();
        // SAFETY: `table.run` is `run`, and `table.ctx` the team that it wants, which lives while `self` is borrowed.
        unsafe { Parallel::of_table(table) }
    }

    /// The table that kernels get; it lives as long as the pool, at one address.
    pub fn table(&self) -> *const ParallelTable {
        self.shared_table().map_or(std::ptr::null(), |table| &raw const *table)
    }

    /// A copy of it, which may differ in who stops the work. It serves as long as the pool lives.
    pub fn table_of_its_own(&self) -> ParallelTable {
        let ParallelTable { size, width, ctx, run, stop, reserved_words } = *self.table;
        ParallelTable { size, width, ctx, run, stop, reserved_words }
    }

    /// The same, for as long as the pool is borrowed; none where there are no workers.
    pub fn shared_table(&self) -> Option<&ParallelTable> {
        (!self.workers.is_empty()).then_some(&*self.table)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.team.close();
        for worker in self.workers.drain(..) {
            // Workers run tasks that catch their panics, so there is nothing to pass on.
            drop(worker.join());
        }
    }
}

/// How often a thread looks in a time: some 40 times in a microsecond.
fn looks(spin: Duration) -> u32 {
    u32::try_from(spin.as_micros().saturating_mul(40)).unwrap_or(u32::MAX)
}

/// A job of as many calls as threads, each of which waits for the others: so each thread has one.
struct Meeting<'a> {
    body: &'a (dyn Fn() + Sync),
    wanted: usize,
    present: AtomicUsize,
}

/// # Safety
/// `ctx` points to a [`Meeting`].
// SAFETY: a team alone calls it, with the `Meeting` that it was started for.
unsafe extern "C" fn attend(ctx: *const c_void, _: usize) {
    // SAFETY: `ctx` points to a `Meeting`, as the caller promises.
    let meeting = unsafe { &*ctx.cast::<Meeting<'_>>() };
    meeting.present.fetch_add(1, Ordering::AcqRel);
    while meeting.present.load(Ordering::Acquire) < meeting.wanted {
        thread::yield_now();
    }
    (meeting.body)();
}

/// `[execute-time, heap-free]` The parallel-for of [`ParallelTable`].
///
/// # Safety
/// `ctx` points to the [`Team`] of a pool that lives, and `task` may be called on any thread with `task_ctx` and
/// a number below `count` until this returns.
// SAFETY: called by way of the pool's table alone, whose `ctx` is its team.
unsafe extern "C" fn run(ctx: *const c_void, count: usize, task: Task, task_ctx: *const c_void) {
    // SAFETY: `ctx` points to a `Team`, as the caller promises.
    let team = unsafe { &*ctx.cast::<Team>() };
    let is_nested = INSIDE.get();
    let _inside = Inside::enter();
    let job = Job::new(task, task_ctx, count);
    // SAFETY: the caller vouches for `task` with `task_ctx` and numbers below `count` until this returns.
    if is_nested || !unsafe { team.submit(job) } {
        for index in 0..count {
            // SAFETY: as the caller promises, with an `index` below `count`.
            unsafe { task(task_ctx, index) };
        }
    }
}
