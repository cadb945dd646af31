//! One call of a finalized kernel.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use udo_api::Status;
use udo_api::abi::{ExecArgs, ParallelTable, TensorArg};
use udo_api::guard::{LibraryGuard, OWN_GUARD};
use udo_host::{Failure, FinalizedKernel, failure};

use super::heap::{self, Use};
use super::memory::Region;

/// In which order, and by whom, the parts of a parallel-for are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the caller, from the first to the last.
    Forwards,
    /// By the caller, from the last to the first.
    Backwards,
    /// By threads.
    Threads,
}

/// What a call is made with, besides its tensors.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) guard: Option<LibraryGuard>,
    /// The threads that the parallel-for claims; none is passed for 1.
    pub(crate) width: u32,
    pub(crate) order: Order,
    /// Whether the word that says so is set from the start.
    pub(crate) is_cancelled: bool,
    pub(crate) scratch: &'a Region,
    pub(crate) geometry: Option<&'a Region>,
}

/// The word of a run that nobody wants.
static STOPPED: u32 = 1;

/// Runs the kernel over `tensors`, `inputs` of them inputs, and says what its threads did with the heap.
pub(crate) fn execute(
    kernel: &FinalizedKernel,
    tensors: &mut [TensorArg],
    inputs: usize,
    caller: &Caller<'_>,
) -> Result<Use, Failure> {
    let crew = Crew::default();
    let with = With { order: caller.order, guard: caller.guard, crew: &crew };
    if caller.order != Order::Threads || caller.width <= 1 {
        return call(kernel, tensors, inputs, caller, &with);
    }
    // Threads are there before the call, as a host's are, so that nothing of them is made within it.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| crew.help());
        }
        let result = call(kernel, tensors, inputs, caller, &with);
        crew.is_over.store(true, Ordering::SeqCst);
        result
    })
}

/// The call itself.
fn call(
    kernel: &FinalizedKernel,
    tensors: &mut [TensorArg],
    inputs: usize,
    caller: &Caller<'_>,
    with: &With<'_>,
) -> Result<Use, Failure> {
    let owed = ExecArgs::owed(tensors.get(inputs..).unwrap_or_default());
    let parallel = ParallelTable {
        size: ParallelTable::SIZE,
        width: caller.width,
        ctx: std::ptr::from_ref(with).cast(),
        run: share,
        stop: if caller.is_cancelled { &raw const STOPPED } else { std::ptr::null() },
        reserved_words: [0; 3],
    };
    let parallel = if caller.width <= 1 { std::ptr::null() } else { &raw const parallel };
    let scratch = caller.scratch.lent();
    let ports = (inputs, tensors.len().saturating_sub(inputs));
    let mut args = kernel.exec_args(tensors.as_mut_ptr(), ports, owed, &scratch, parallel);
    args.guard = caller.guard.map_or(std::ptr::null_mut(), |guard| guard.cell());
    let told = caller.guard.unwrap_or(OWN_GUARD);
    let ((), mut used) = ((), Use::default());
    if let (Some(prepare), Some(geometry)) = (kernel.prepare_fn(), caller.geometry) {
        args.geometry = geometry.as_ptr();
        args.geometry_bytes = kernel.geometry_bytes();
        // SAFETY: as below; the geometry is the call's to fill, and outlives it.
        let (status, prepared) = heap::watched(|| unsafe { prepare(&raw const args) });
        used = prepared;
        if status != Status::OK.code() {
            return Err(failure(status, told));
        }
    }
    let run = kernel.execute_fn();
    // SAFETY: `args` points to tensors in regions of their own, to scratch and geometry that the call alone uses, and to the
    // kernel's constants; all of them outlive the call.
    let (status, executed) = heap::watched(|| unsafe { run(&raw const args) });
    if status != Status::OK.code() {
        return Err(failure(status, told));
    }
    if used.calls == 0 {
        used.first_bytes = executed.first_bytes;
    }
    used.calls += executed.calls;
    Ok(used)
}

/// Does the calls of a parallel-for in the order that `ctx` says.
///
/// # Safety
/// That of [`ParallelTable::run`]: `task` may be called with `task_ctx` for every index below `count`, on any thread.
unsafe extern "C" fn share(
    ctx: *const c_void,
    count: usize,
    // SAFETY: what it may be called with is the caller's promise.
    task: unsafe extern "C" fn(*const c_void, usize),
    task_ctx: *const c_void,
) {
    // SAFETY: `call` passes a `With`, which outlives the call.
    let with = unsafe { &*ctx.cast::<With<'_>>() };
    match with.order {
        Order::Forwards => {
            for index in 0..count {
                // SAFETY: the caller vouches for `task`, and `index` is below `count`.
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
            let job = Job {
                task,
                ctx: task_ctx,
                count,
                next: AtomicUsize::new(0),
                calls: AtomicU64::new(0),
                first_bytes: AtomicUsize::new(0),
                guard: with.guard,
                is_watched: heap::is_watched(),
            };
            with.crew.share(&job);
            let calls = job.calls.load(Ordering::SeqCst);
            if calls > 0 {
                let first_bytes = job.first_bytes.load(Ordering::SeqCst);
                heap::add(Use { calls, first_bytes, kept_bytes: 0 });
            }
        }
    }
}

/// What `share` is handed.
struct With<'a> {
    order: Order,
    guard: Option<LibraryGuard>,
    crew: &'a Crew,
}

/// Threads that help with jobs.
#[derive(Debug, Default)]
struct Crew {
    job: AtomicPtr<Job>,
    at_work: AtomicUsize,
    is_over: AtomicBool,
}

impl Crew {
    /// Does the job with all threads, and returns when none of them is at it.
    fn share(&self, job: &Job) {
        self.job.store(std::ptr::from_ref(job).cast_mut(), Ordering::SeqCst);
        job.work();
        self.job.store(std::ptr::null_mut(), Ordering::SeqCst);
        while self.at_work.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
    }

    fn help(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.at_work.fetch_add(1, Ordering::SeqCst);
            let job = self.job.load(Ordering::SeqCst);
            // SAFETY: who published the job keeps it until no thread is at work, and this one said that it is before it looked.
            if let Some(job) = unsafe { job.as_ref() } {
                job.help();
            }
            self.at_work.fetch_sub(1, Ordering::SeqCst);
            thread::park_timeout(Duration::from_micros(50));
        }
    }
}

/// Calls that threads share.
struct Job {
    // SAFETY: only a type; `work` keeps to what `share` was promised.
    task: unsafe extern "C" fn(*const c_void, usize),
    ctx: *const c_void,
    count: usize,
    next: AtomicUsize,
    /// What helping threads did with the heap.
    calls: AtomicU64,
    first_bytes: AtomicUsize,
    guard: Option<LibraryGuard>,
    is_watched: bool,
}

// SAFETY: the contract of a parallel-for lets its calls be made on any thread, at once.
unsafe impl Sync for Job {}

impl Job {
    /// Makes calls until there are no more.
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            // SAFETY: each index below `count` is called once, as the caller of `share` allows.
            unsafe { (self.task)(self.ctx, index) };
        }
    }

    /// The same on a helping thread.
    fn help(&self) {
        // Hosts ask for a thread's cell before its first call, whereupon the library has what it keeps for each thread.
        if let Some(guard) = self.guard {
            guard.cell();
        }
        let ((), used) = heap::watched(|| self.work());
        if self.is_watched && used.calls > 0 {
            self.calls.fetch_add(used.calls, Ordering::SeqCst);
            self.first_bytes.store(used.first_bytes, Ordering::SeqCst);
        }
    }
}
