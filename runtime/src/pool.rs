//! The fork-join pool behind every kernel's `Parallel`: no heap once it stands.

use std::cell::Cell;
use std::ffi::c_void;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use udo_api::abi::ParallelTable;

type Task = unsafe extern "C" fn(ctx: *const c_void, index: usize);

#[derive(Clone, Copy)]
struct Job {
    task: Task,
    ctx: *const c_void,
    count: usize,
}

// SAFETY: the context is only handed to `task`, whose caller vouched for any thread.
unsafe impl Send for Job {}

struct State {
    job: Option<Job>,
    generation: u64,
    busy_workers: usize,
    closing: bool,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
    next: AtomicUsize,
}

/// Threads that share out the calls of one parallel-for at a time.
///
/// A parallel-for inside another, or while another session's is running, runs on its caller.
pub struct Pool {
    shared: Arc<Shared>,
    table: Box<ParallelTable>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.workers.len() + 1)
    }
}

// SAFETY: the table points only at `shared`, which is made for sharing and outlives it.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

thread_local! {
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
    /// A pool of `threads` threads, the caller of each parallel-for being one of them.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(threads: NonZero<usize>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { job: None, generation: 0, busy_workers: 0, closing: false }),
            wake: Condvar::new(),
            done: Condvar::new(),
            next: AtomicUsize::new(0),
        });
        let table = Box::new(ParallelTable {
            ctx: Arc::as_ptr(&shared).cast(),
            width: u32::try_from(threads.get()).unwrap_or(u32::MAX),
            reserved: 0,
            run,
            reserved_words: [0; 4],
        });
        let mut pool = Self { shared, table, workers: Vec::new() };
        for index in 1..threads.get() {
            let shared = Arc::clone(&pool.shared);
            let worker = thread::Builder::new().name(format!("udo-worker-{index}"));
            pool.workers.push(worker.spawn(move || shared.serve())?);
        }
        Ok(pool)
    }

    /// How many threads work at once.
    pub fn width(&self) -> usize {
        self.workers.len() + 1
    }

    /// The table that kernels get; it lives as long as the pool, at one address.
    pub(crate) fn table(&self) -> *const ParallelTable {
        if self.workers.is_empty() { std::ptr::null() } else { &raw const *self.table }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // Workers run tasks that catch their panics, so there is nothing to pass on.
            drop(worker.join());
        }
    }
}

impl Shared {
    /// No code that can panic runs under the lock, so a poisoned state is whole all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut seen = 0;
        let mut state = self.lock();
        loop {
            if state.closing {
                return;
            }
            let fresh = state.job.filter(|_| state.generation != seen);
            let Some(job) = fresh else {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            seen = state.generation;
            state.busy_workers += 1;
            drop(state);
            self.work(job);
            state = self.lock();
            state.busy_workers -= 1;
            if state.busy_workers == 0 {
                self.done.notify_all();
            }
        }
    }

    fn work(&self, job: Job) {
        let _inside = Inside::enter();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= job.count {
                return;
            }
            // SAFETY: the submitter vouched for the context until every call has returned.
            unsafe { (job.task)(job.ctx, index) };
        }
    }

    /// Hands `job` to the workers, unless they have one.
    fn submit(&self, job: Job) -> bool {
        let mut state = self.lock();
        if state.job.is_some() {
            return false;
        }
        self.next.store(0, Ordering::Relaxed);
        state.job = Some(job);
        state.generation += 1;
        drop(state);
        self.wake.notify_all();
        true
    }

    /// Waits until no worker holds the job any more.
    fn finish(&self) {
        let mut state = self.lock();
        while state.busy_workers > 0 {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.job = None;
    }
}

/// `[execute-time, heap-free]` The parallel-for of [`ParallelTable`].
unsafe extern "C" fn run(ctx: *const c_void, count: usize, task: Task, task_ctx: *const c_void) {
    // SAFETY: the table's context is the pool's shared part, which outlives every session.
    let shared = unsafe { &*ctx.cast::<Shared>() };
    let job = Job { task, ctx: task_ctx, count };
    if INSIDE.get() || !shared.submit(job) {
        let _inside = Inside::enter();
        for index in 0..count {
            // SAFETY: the caller vouches for task and context.
            unsafe { task(task_ctx, index) };
        }
        return;
    }
    shared.work(job);
    shared.finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    struct Sum {
        total: AtomicU64,
        calls: AtomicU64,
        nested: *const ParallelTable,
    }

    unsafe extern "C" fn add(ctx: *const c_void, index: usize) {
        // SAFETY: the tests pass a `Sum`.
        let sum = unsafe { &*ctx.cast::<Sum>() };
        sum.total.fetch_add(index as u64, Ordering::Relaxed);
        sum.calls.fetch_add(1, Ordering::Relaxed);
        // SAFETY: null, or the table of a pool that outlives the call.
        if let Some(table) = unsafe { sum.nested.as_ref() } {
            let inner = Sum {
                total: AtomicU64::new(0),
                calls: AtomicU64::new(0),
                nested: std::ptr::null(),
            };
            // SAFETY: task and context match.
            unsafe { (table.run)(table.ctx, 10, add, (&raw const inner).cast()) };
            sum.total.fetch_add(inner.total.into_inner(), Ordering::Relaxed);
        }
    }

    fn sum_to(pool: &Pool, count: usize, nested: bool) -> (u64, u64) {
        let table = &pool.table;
        let nested = if nested { &raw const **table } else { std::ptr::null() };
        let sum = Sum { total: AtomicU64::new(0), calls: AtomicU64::new(0), nested };
        // SAFETY: task and context match.
        unsafe { (table.run)(table.ctx, count, add, (&raw const sum).cast()) };
        (sum.calls.into_inner(), sum.total.into_inner())
    }

    #[test]
    fn every_call_happens_once() {
        for threads in 1..=4 {
            let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
            for count in [0, 1, 2, 7, 1000] {
                let wanted = (count as u64, (0..count as u64).sum());
                assert_eq!(sum_to(&pool, count, false), wanted, "{threads} threads, {count} calls");
            }
        }
    }

    #[test]
    fn nested_calls_run_on_their_caller() {
        let pool = Pool::new(NonZero::new(3).unwrap()).unwrap();
        assert_eq!(sum_to(&pool, 100, true), (100, (0..100).sum::<u64>() + 100 * 45));
    }

    #[test]
    fn several_callers_share_a_pool() {
        let pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(sum_to(&pool, 20, false), (20, 190));
                    }
                });
            }
        });
    }
}
