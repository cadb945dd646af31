//! The fork-join pool behind every kernel's `Parallel`: no heap once it stands, and no lock while
//! it is busy. Workers look for the next job for a few microseconds before they sleep.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use udo_api::Parallel;
use udo_api::abi::ParallelTable;

/// A call of a job. SAFETY: the context is the one that came with it, and still lent.
type Task = unsafe extern "C" fn(ctx: *const c_void, index: usize);

#[derive(Clone, Copy)]
struct Job {
    task: Task,
    ctx: *const c_void,
    count: usize,
}

/// The job in hand, and who is at it.
///
/// `gate` says all of it in one word: the job's number in the upper half, whether workers may
/// still join in bit 31, and below that how many have joined. A worker joins by adding one to a
/// gate that is open; the submitter shuts the gate and waits for the count to fall to 0. So a job
/// is never read while it is being replaced, and nobody waits for workers that sleep.
struct Shared {
    gate: AtomicU64,
    /// Held by the one who submits; read by workers that have joined.
    job: UnsafeCell<Job>,
    taken: AtomicBool,
    shares: Box<[Share]>,
    closing: AtomicBool,
    sleepers: AtomicUsize,
    waits: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
    done: Condvar,
}

/// The calls that a thread takes first: as many as the others', next to each other, and of every job the
/// same part, so that what one job leaves in the caches of a core the next one finds there. Who is through
/// with its own helps with the others'.
#[derive(Default)]
#[repr(align(64))]
struct Share {
    /// The next call of it.
    next: AtomicUsize,
}

// SAFETY: `job` is written while `taken` is held and the gate is shut with nobody inside, and read
// only by those inside. Its context goes only to `task`, whose caller vouched for any thread.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

const OPEN: u64 = 1 << 31;
const JOINED: u64 = OPEN - 1;

/// How often to look before going to sleep: some 100 microseconds, a few times what waking up takes.
const LOOKS: u32 = 4000;

fn number(gate: u64) -> u64 {
    gate >> 32
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
        let idle = Job { task: nothing, ctx: std::ptr::null(), count: 0 };
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            job: UnsafeCell::new(idle),
            taken: AtomicBool::new(false),
            shares: (0..threads.get()).map(|_| Share::default()).collect(),
            closing: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            waits: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            done: Condvar::new(),
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
            pool.workers.push(worker.spawn(move || shared.serve(index))?);
        }
        Ok(pool)
    }

    /// How many threads work at once.
    pub fn width(&self) -> usize {
        self.workers.len() + 1
    }

    /// The parallel-for that kernels get.
    pub fn parallel(&self) -> Parallel<'_> {
        let table = (!self.workers.is_empty()).then_some(&*self.table);
        // SAFETY: the table is this pool's own, which keeps to the ABI while the pool lives.
        unsafe { Parallel::of_table(table) }
    }

    /// The table that kernels get; it lives as long as the pool, at one address.
    pub(crate) fn table(&self) -> *const ParallelTable {
        if self.workers.is_empty() { std::ptr::null() } else { &raw const *self.table }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        {
            let _guard = self.shared.lock();
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // Workers run tasks that catch their panics, so there is nothing to pass on.
            drop(worker.join());
        }
    }
}

// SAFETY: it does nothing; it is unsafe to have the type of a task.
unsafe extern "C" fn nothing(_: *const c_void, _: usize) {}

impl Shared {
    /// Nothing that can panic runs under the lock, and it guards no data.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's life: join jobs until the pool closes.
    fn serve(&self, index: usize) {
        let mut seen = 0;
        let mut looks = 0;
        while !self.closing.load(Ordering::Relaxed) {
            if self.join(&mut seen) {
                self.work(index);
                self.leave();
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                self.sleep(seen);
                looks = 0;
            }
        }
    }

    fn is_new(&self, seen: u64) -> bool {
        let gate = self.gate.load(Ordering::SeqCst);
        gate & OPEN != 0 && number(gate) != seen
    }

    /// Joins a job that is not the one numbered `seen`, if there is one.
    fn join(&self, seen: &mut u64) -> bool {
        let gate = self.gate.load(Ordering::Acquire);
        if gate & OPEN == 0 || number(gate) == *seen {
            return false;
        }
        let joined =
            self.gate.compare_exchange(gate, gate + 1, Ordering::AcqRel, Ordering::Relaxed);
        if joined.is_ok() {
            *seen = number(gate);
        }
        joined.is_ok()
    }

    fn leave(&self) {
        let gate = self.gate.fetch_sub(1, Ordering::SeqCst);
        let last = gate & JOINED == 1 && gate & OPEN == 0;
        if last && self.waits.load(Ordering::SeqCst) {
            let _guard = self.lock();
            self.done.notify_all();
        }
    }

    fn sleep(&self, seen: u64) {
        let mut guard = self.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.is_new(seen) && !self.closing.load(Ordering::SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Where a share of so many calls begins; the last one ends where another would begin.
    fn begin(&self, count: usize, share: usize) -> usize {
        let threads = self.shares.len();
        count / threads * share + (count % threads * share).div_ceil(threads)
    }

    /// Takes calls until there are none left, its own share first.
    fn work(&self, thread: usize) {
        let _inside = Inside::enter();
        // SAFETY: we have joined, or we submitted: nobody replaces the job before we leave.
        let job = unsafe { *self.job.get() };
        let threads = self.shares.len();
        for share in (thread..threads).chain(0..thread) {
            let end = self.begin(job.count, share + 1);
            loop {
                let index = self.shares[share].next.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    break;
                }
                // SAFETY: the submitter vouched for the context until every call has returned.
                unsafe { (job.task)(job.ctx, index) };
            }
        }
    }

    /// Hands `job` to the workers, unless they have one.
    fn submit(&self, job: Job) -> bool {
        if self.taken.swap(true, Ordering::Acquire) {
            return false;
        }
        // SAFETY: `taken` is ours, the gate is shut, and `finish` saw the last worker leave.
        unsafe { *self.job.get() = job };
        for (index, share) in self.shares.iter().enumerate() {
            share.next.store(self.begin(job.count, index), Ordering::Relaxed);
        }
        let following = number(self.gate.load(Ordering::Relaxed)).wrapping_add(1) & 0xffff_ffff;
        self.gate.store(following << 32 | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock();
            self.wake.notify_all();
        }
        true
    }

    /// Shuts the gate and waits until everybody who joined has left.
    fn finish(&self) {
        self.gate.fetch_and(!OPEN, Ordering::SeqCst);
        let inside = || self.gate.load(Ordering::SeqCst) & JOINED != 0;
        for _ in 0..LOOKS {
            if !inside() {
                break;
            }
            std::hint::spin_loop();
        }
        if inside() {
            let mut guard = self.lock();
            self.waits.store(true, Ordering::SeqCst);
            while inside() {
                guard = self.done.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            self.waits.store(false, Ordering::SeqCst);
        }
        self.taken.store(false, Ordering::Release);
    }
}

/// `[execute-time, heap-free]` The parallel-for of [`ParallelTable`].
// SAFETY: called by way of the table alone, whose context is the pool's shared part.
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
    shared.work(0);
    shared.finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{ExecError, Status};

    struct Sum {
        total: AtomicU64,
        calls: AtomicU64,
        nested: *const ParallelTable,
    }

    // SAFETY: called by the pool alone, with the `Sum` that the tests lend it.
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
    fn a_long_call_does_not_hold_up_the_others() {
        const CALLS: usize = 100;
        for threads in 2..=4 {
            let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
            let finished = AtomicUsize::new(0);
            let done = pool.parallel().run(CALLS, |index| {
                if index == 0 {
                    // Ends only if other threads take all the other calls.
                    while finished.load(Ordering::Acquire) < CALLS - 1 {
                        thread::yield_now();
                    }
                }
                finished.fetch_add(1, Ordering::AcqRel);
                Ok(())
            });
            assert_eq!((done, finished.into_inner()), (Ok(()), CALLS), "{threads} threads");
        }
    }

    #[test]
    fn threads_take_their_own_shares_first() {
        const CALLS: usize = 11;
        for threads in 1..=4 {
            let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
            let takers: Vec<Mutex<Option<thread::ThreadId>>> =
                (0..CALLS).map(|_| Mutex::new(None)).collect();
            let begun = AtomicUsize::new(0);
            let done = pool.parallel().run(CALLS, |index| {
                *takers[index].lock().unwrap() = Some(thread::current().id());
                begun.fetch_add(1, Ordering::AcqRel);
                // Nobody has two calls before everybody has one.
                while begun.load(Ordering::Acquire) < threads {
                    thread::yield_now();
                }
                Ok(())
            });
            assert_eq!(done, Ok(()));
            let taker = |index: usize| takers[index].lock().unwrap().unwrap();
            let begins: Vec<usize> = (0..=threads).map(|i| pool.shared.begin(CALLS, i)).collect();
            assert_eq!((begins[0], begins[threads]), (0, CALLS));
            let firsts: Vec<_> = begins[..threads].iter().map(|&first| taker(first)).collect();
            for (share, first) in firsts.iter().enumerate() {
                let len = begins[share + 1] - begins[share];
                assert!((CALLS / threads..=CALLS.div_ceil(threads)).contains(&len), "{begins:?}");
                assert!(
                    !firsts[..share].contains(first),
                    "{threads} threads: two shares begun by one"
                );
            }
            assert_eq!(firsts[0], thread::current().id(), "the caller has the first share");
        }
    }

    #[test]
    fn pieces_have_rooms_of_their_own() {
        for threads in 1..=3 {
            let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
            let (mut data, mut room) = ([0u32; 50], [0u32; 40]);
            let fill = |index: usize, piece: &mut [u32], room: &mut [u32]| {
                let index = u32::try_from(index).unwrap();
                room.fill(index + 1);
                piece.copy_from_slice(room);
                Ok(())
            };
            let parallel = pool.parallel();
            assert_eq!(
                parallel.chunks_mut_with(&mut data, 5, &mut room, 5, fill),
                Err(too_short())
            );
            assert_eq!(data, [0; 50], "nothing ran");
            let (data, room) = (&mut data[..40], &mut room[..]);
            assert_eq!(parallel.chunks_mut_with(data, 5, room, 5, fill), Ok(()));
            let wanted: Vec<u32> = (0..40).map(|i| i / 5 + 1).collect();
            assert_eq!((&*data, &*room), (&wanted[..], &wanted[..]));
        }
    }

    fn too_short() -> ExecError {
        ExecError::with(Status::SCRATCH_EXCEEDED, [200, 160])
    }

    #[test]
    fn failures_and_panics_of_workers_reach_the_caller() {
        let pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
        let meet = std::sync::Barrier::new(2);
        // Both calls wait for each other, so one of them is on the worker.
        let on_worker = |fail: fn() -> Result<(), ExecError>| {
            let caller = thread::current().id();
            pool.parallel().run(2, |_| {
                meet.wait();
                if thread::current().id() == caller { Ok(()) } else { fail() }
            })
        };
        let failed = on_worker(|| Err(ExecError::of(Status::FAILED)));
        assert_eq!(failed.unwrap_err().status, Status::FAILED);
        let panicked = on_worker(|| panic!("on a worker"));
        assert_eq!(panicked.unwrap_err().status, Status::PANICKED);
        assert_eq!(on_worker(|| Ok(())), Ok(()), "the pool goes on");
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
