//! One call of a finalized kernel, with a parallel-for that uses helper threads (the crew) or a fixed order.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use udo_api::Status;
use udo_api::abi::{ExecArgs, ParallelTable, TensorArg};
use udo_api::guard::{LibraryGuard, OWN_GUARD};
use udo_host::{Buffer, Failure, FinalizedKernel, failure};

use crate::host::{HeapUse, Host, Memory};

/// The order and the threads of a parallel-for's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The calling thread, in ascending order.
    Forwards,
    /// The calling thread, in descending order, so that a kernel that relies on an order fails.
    Backwards,
    /// Several threads concurrently.
    Threads,
}

/// The context of a call.
pub(crate) struct Caller<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) guard: Option<LibraryGuard>,
    /// The number of threads of the parallel-for; 1 passes none.
    pub(crate) width: u32,
    pub(crate) order: Order,
    /// Whether the run is cancelled from the start.
    pub(crate) is_cancelled: bool,
    pub(crate) scratch: &'a mut (dyn Memory + 'static),
    pub(crate) geometry: Option<&'a mut (dyn Memory + 'static)>,
}

/// The number of helper threads of [`Order::Threads`], besides the calling thread.
const HELPERS: usize = 3;

/// The stop word of a cancelled run.
static STOPPED: u32 = 1;

/// Calls the kernel on `tensors`, of which the first `inputs` are inputs, and returns the heap use of its threads.
pub(crate) fn execute(
    kernel: &FinalizedKernel,
    tensors: &mut [TensorArg],
    inputs: usize,
    caller: Caller<'_>,
) -> Result<HeapUse, Failure> {
    let crew = Crew::default();
    let share = Share { order: caller.order, guard: caller.guard, host: caller.host, crew: &crew };
    if caller.order != Order::Threads || caller.width <= 1 {
        return call(kernel, tensors, inputs, caller, &share);
    }
    // Threads start before the call, as in a runtime, so that starting them does not count.
    thread::scope(|scope| {
        for _ in 0..HELPERS {
            scope.spawn(|| crew.help());
        }
        let result = call(kernel, tensors, inputs, caller, &share);
        crew.is_finished.store(true, Ordering::SeqCst);
        result
    })
}

/// Fills the geometry if the kernel has one, then executes the kernel.
fn call(
    kernel: &FinalizedKernel,
    tensors: &mut [TensorArg],
    inputs: usize,
    caller: Caller<'_>,
    share: &Share<'_>,
) -> Result<HeapUse, Failure> {
    let owed = ExecArgs::owed(tensors.get(inputs..).unwrap_or_default());
    let parallel = ParallelTable {
        size: ParallelTable::SIZE,
        width: caller.width,
        ctx: std::ptr::from_ref(share).cast(),
        run: run_parallel,
        stop: if caller.is_cancelled { &raw const STOPPED } else { std::ptr::null() },
        reserved_words: [0; 3],
    };
    let parallel = if caller.width <= 1 { std::ptr::null() } else { &raw const parallel };
    let port_counts = (inputs, tensors.len().saturating_sub(inputs));
    let no_scratch = Buffer::default();
    let mut args = kernel.exec_args(tensors.as_mut_ptr(), port_counts, owed, &no_scratch, parallel);
    let scratch = caller.scratch.bytes_mut();
    args.scratch = scratch.as_mut_ptr();
    args.scratch_bytes = scratch.len();
    args.guard = caller.guard.map_or(std::ptr::null_mut(), |guard| guard.cell());
    let guard = caller.guard.unwrap_or(OWN_GUARD);
    let mut used = HeapUse::default();
    if let (Some(prepare), Some(geometry)) = (kernel.prepare_fn(), caller.geometry) {
        args.geometry = geometry.bytes_mut().as_mut_ptr();
        args.geometry_bytes = kernel.geometry_bytes();
        let mut status = Status::OK.code();
        // SAFETY: as below; the geometry is for this call to fill, and outlives it.
        used.add(caller.host.watched(&mut || status = unsafe { prepare(&raw const args) }));
        if status != Status::OK.code() {
            return Err(failure(status, guard));
        }
    }
    let run = kernel.execute_fn();
    let mut status = Status::OK.code();
    // SAFETY: `args` points to tensors in memory of their own, to scratch and geometry that only this call uses, and to
    // the kernel's constants; all of them outlive the call.
    used.add(caller.host.watched(&mut || status = unsafe { run(&raw const args) }));
    if status != Status::OK.code() {
        return Err(failure(status, guard));
    }
    used.add(share.crew.used());
    Ok(used)
}

/// The context of [`run_parallel`].
struct Share<'a> {
    order: Order,
    guard: Option<LibraryGuard>,
    host: &'a dyn Host,
    crew: &'a Crew,
}

/// Makes the calls of a parallel-for in the order of `ctx`.
///
/// # Safety
/// That of [`ParallelTable::run`]: `task` may be called with `task_ctx` for every index below `count`, on any thread.
// SAFETY: only kernels get this function, in a `ParallelTable`, and the contract requires them to keep that promise.
unsafe extern "C" fn run_parallel(
    ctx: *const c_void,
    count: usize,
    // SAFETY: the caller promises how it may be called.
    task: unsafe extern "C" fn(*const c_void, usize),
    task_ctx: *const c_void,
) {
    // SAFETY: `call` passes a `Share`, which outlives the call.
    let share = unsafe { &*ctx.cast::<Share<'_>>() };
    match share.order {
        Order::Forwards => {
            for index in 0..count {
                // SAFETY: the caller promises that `task` may be called, and `index` is below `count`.
                unsafe { task(task_ctx, index) };
            }
        }
        Order::Backwards => {
            for index in (0..count).rev() {
                // SAFETY: as above.
                unsafe { task(task_ctx, index) };
            }
        }
        Order::Threads => {
            let next = AtomicUsize::new(0);
            let (guard, host) = (share.guard, share.host);
            share.crew.share(&Job { task, ctx: task_ctx, count, next, guard, host });
        }
    }
}

/// Helper threads.
#[derive(Default)]
struct Crew {
    /// The current job, as a `Job`.
    job: AtomicPtr<c_void>,
    working: AtomicUsize,
    is_finished: AtomicBool,
    /// The heap use of helper threads.
    heap_calls: AtomicU64,
    heap_first_bytes: AtomicUsize,
}

impl Crew {
    /// Runs the job on all threads, and returns when no thread is working on it.
    fn share(&self, job: &Job<'_>) {
        self.job.store(std::ptr::from_ref(job).cast_mut().cast(), Ordering::SeqCst);
        job.work();
        self.job.store(std::ptr::null_mut(), Ordering::SeqCst);
        while self.working.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
    }

    /// Works on published jobs until the call is finished.
    fn help(&self) {
        while !self.is_finished.load(Ordering::SeqCst) {
            self.working.fetch_add(1, Ordering::SeqCst);
            let job = self.job.load(Ordering::SeqCst).cast::<Job<'_>>();
            // SAFETY: `share` keeps the published job until no thread works on it, and this thread registered as
            // working before it looked. The contract of a parallel-for allows concurrent calls on any thread.
            if let Some(job) = unsafe { job.as_ref() } {
                let used = job.help();
                if used.calls > 0 {
                    self.heap_calls.fetch_add(used.calls, Ordering::SeqCst);
                    self.heap_first_bytes.store(used.first_bytes, Ordering::SeqCst);
                }
            }
            self.working.fetch_sub(1, Ordering::SeqCst);
            thread::park_timeout(Duration::from_micros(50));
        }
    }

    /// Returns the heap use of helper threads so far.
    fn used(&self) -> HeapUse {
        let first_bytes = self.heap_first_bytes.load(Ordering::SeqCst);
        HeapUse { calls: self.heap_calls.load(Ordering::SeqCst), first_bytes }
    }
}

/// The calls that threads share.
struct Job<'a> {
    // SAFETY: only a type; `work` keeps the promise of `run_parallel`.
    task: unsafe extern "C" fn(*const c_void, usize),
    ctx: *const c_void,
    count: usize,
    next: AtomicUsize,
    guard: Option<LibraryGuard>,
    host: &'a dyn Host,
}

impl Job<'_> {
    /// Makes calls until none are left.
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            // SAFETY: each index below `count` is called once, as the caller of `run_parallel` allows.
            unsafe { (self.task)(self.ctx, index) };
        }
    }

    /// Works on a helper thread, and returns its heap use.
    fn help(&self) -> HeapUse {
        // Hosts request a thread's cell before its first call, which initializes the library's per-thread state.
        if let Some(guard) = self.guard {
            guard.cell();
        }
        self.host.watched(&mut || self.work())
    }
}
