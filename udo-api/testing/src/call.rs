//! One call of a finalized kernel.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use udo_api::Status;
use udo_api::abi::{ExecArgs, ParallelTable, TensorArg};
use udo_api::guard::{LibraryGuard, OWN_GUARD};
use udo_host::{Buffer, Failure, FinalizedKernel, failure};

use crate::host::{HeapUse, Host, Memory};

/// In which order, and by whom, the calls of a parallel-for are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the caller, from the first to the last.
    Forwards,
    /// By the caller, from the last to the first, so that a kernel that relies on an order fails.
    Backwards,
    /// By several threads at once.
    Threads,
}

/// What a call is made with, besides its tensors.
pub(crate) struct Caller<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) guard: Option<LibraryGuard>,
    /// The threads that the parallel-for claims; 1 passes no parallel-for.
    pub(crate) width: u32,
    pub(crate) order: Order,
    /// Whether the run's stop word is set from the start.
    pub(crate) is_cancelled: bool,
    pub(crate) scratch: &'a mut (dyn Memory + 'static),
    pub(crate) geometry: Option<&'a mut (dyn Memory + 'static)>,
}

/// The stop word of a cancelled run.
static STOPPED: u32 = 1;

/// Calls the kernel on `tensors`, the first `inputs` of them inputs, and returns what its threads did with the heap.
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
    // Threads exist before the call, as a runtime's do, so that starting them is not part of it.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| crew.help());
        }
        let result = call(kernel, tensors, inputs, caller, &share);
        crew.is_over.store(true, Ordering::SeqCst);
        result
    })
}

/// The call itself.
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
    let ports = (inputs, tensors.len().saturating_sub(inputs));
    let none = Buffer::default();
    let mut args = kernel.exec_args(tensors.as_mut_ptr(), ports, owed, &none, parallel);
    let scratch = caller.scratch.bytes_mut();
    args.scratch = scratch.as_mut_ptr();
    args.scratch_bytes = scratch.len();
    args.guard = caller.guard.map_or(std::ptr::null_mut(), |guard| guard.cell());
    let told = caller.guard.unwrap_or(OWN_GUARD);
    let mut used = HeapUse::default();
    if let (Some(prepare), Some(geometry)) = (kernel.prepare_fn(), caller.geometry) {
        args.geometry = geometry.bytes_mut().as_mut_ptr();
        args.geometry_bytes = kernel.geometry_bytes();
        let mut status = Status::OK.code();
        // SAFETY: as below; the geometry is the call's to fill, and outlives it.
        used.add(caller.host.watched(&mut || status = unsafe { prepare(&raw const args) }));
        if status != Status::OK.code() {
            return Err(failure(status, told));
        }
    }
    let run = kernel.execute_fn();
    let mut status = Status::OK.code();
    // SAFETY: `args` points to tensors in memory of their own, to scratch and geometry that the call alone uses, and to
    // the kernel's constants; all of them outlive the call.
    used.add(caller.host.watched(&mut || status = unsafe { run(&raw const args) }));
    if status != Status::OK.code() {
        return Err(failure(status, told));
    }
    used.add(share.crew.used());
    Ok(used)
}

/// What [`run_parallel`] is passed.
struct Share<'a> {
    order: Order,
    guard: Option<LibraryGuard>,
    host: &'a dyn Host,
    crew: &'a Crew,
}

/// Makes the calls of a parallel-for in the order that `ctx` holds.
///
/// # Safety
/// That of [`ParallelTable::run`]: `task` may be called with `task_ctx` for every index below `count`, on any thread.
// SAFETY: kernels alone get this function, in a `ParallelTable`, and the contract has them keep that promise.
unsafe extern "C" fn run_parallel(
    ctx: *const c_void,
    count: usize,
    // SAFETY: what it may be called with is the caller's promise.
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

/// Threads that help with jobs.
#[derive(Default)]
struct Crew {
    /// The job at hand, as a `Job`.
    job: AtomicPtr<c_void>,
    at_work: AtomicUsize,
    is_over: AtomicBool,
    /// What helping threads did with the heap.
    heap_calls: AtomicU64,
    heap_first_bytes: AtomicUsize,
}

impl Crew {
    /// Does the job with all threads, and returns when none of them is at it.
    fn share(&self, job: &Job<'_>) {
        self.job.store(std::ptr::from_ref(job).cast_mut().cast(), Ordering::SeqCst);
        job.work();
        self.job.store(std::ptr::null_mut(), Ordering::SeqCst);
        while self.at_work.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
    }

    fn help(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.at_work.fetch_add(1, Ordering::SeqCst);
            let job = self.job.load(Ordering::SeqCst).cast::<Job<'_>>();
            // SAFETY: `share` keeps the job it published until no thread is at work, and this thread registered as at
            // work before it looked. The contract of a parallel-for allows its calls on any thread, at once.
            if let Some(job) = unsafe { job.as_ref() } {
                let used = job.help();
                if used.calls > 0 {
                    self.heap_calls.fetch_add(used.calls, Ordering::SeqCst);
                    self.heap_first_bytes.store(used.first_bytes, Ordering::SeqCst);
                }
            }
            self.at_work.fetch_sub(1, Ordering::SeqCst);
            thread::park_timeout(Duration::from_micros(50));
        }
    }

    /// What helping threads did with the heap so far.
    fn used(&self) -> HeapUse {
        let first_bytes = self.heap_first_bytes.load(Ordering::SeqCst);
        HeapUse { calls: self.heap_calls.load(Ordering::SeqCst), first_bytes }
    }
}

/// Calls that threads share.
struct Job<'a> {
    // SAFETY: only a type; `work` keeps to what `run_parallel` was promised.
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

    /// The same on a helping thread, and what that did with the heap.
    fn help(&self) -> HeapUse {
        // Hosts ask for a thread's cell before its first call, whereupon the library has its per-thread state.
        if let Some(guard) = self.guard {
            guard.cell();
        }
        self.host.watched(&mut || self.work())
    }
}
