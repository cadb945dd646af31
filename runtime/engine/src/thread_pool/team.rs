//! The state that the submitter of a job and the workers share.

use std::ffi::c_void;

use super::gate::Gate;
use super::lanes::{self, LaneRef};
use super::partition::Partitions;
use super::sync::{AtomicBool, Ordering, UnsafeCell};
use crate::exit_guard::{self, CurrentCall};

/// One call of a job.
// SAFETY: only a type; `Team::submit` says what a caller of the function keeps to.
pub(super) type Task = unsafe extern "C" fn(ctx: *const c_void, index: usize);

/// A task, its argument, and the number of its calls.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) ctx: *const c_void,
    pub(super) count: usize,
    /// The package call that the submitting thread is in.
    caller: CurrentCall,
    lanes_ref: LaneRef,
}

impl Job {
    pub(super) fn new(task: Task, ctx: *const c_void, count: usize) -> Self {
        Self {
            task,
            ctx,
            count,
            caller: exit_guard::current_call(),
            lanes_ref: lanes::current_lanes(),
        }
    }
}

/// The current job and the threads that work on it.
pub(super) struct Team {
    gate: Gate,
    /// Whether a thread is submitting a job.
    busy: AtomicBool,
    /// Written by the thread that set `busy`, while the gate is shut. Read by that thread and those that the gate
    /// admitted.
    job: UnsafeCell<Job>,
    pub(super) partitions: Partitions,
}

// SAFETY: of its fields only `job` is not `Sync`. It is written in `submit` alone, by the thread that set
// `busy`, before the gate is opened and after `shut` saw the last reader leave; `work` reads it in between.
// Its `ctx` is never dereferenced here: it is passed to `task`, which the submitter allows on any thread.
unsafe impl Sync for Team {}
// SAFETY: `job.ctx` is the one field that is not `Send`, and no thread follows it but through `job.task`.
unsafe impl Send for Team {}

// SAFETY: it follows no pointer; it is unsafe to have the type of a task.
unsafe extern "C" fn nothing(_: *const c_void, _: usize) {}

impl Team {
    /// Creates a team of `threads` threads. The submitter is number 0. Waiting threads check `spins` times before they
    /// sleep.
    pub(super) fn new(threads: usize, spins: u32) -> Self {
        Self {
            gate: Gate::new(spins),
            busy: AtomicBool::new(false),
            job: UnsafeCell::new(Job::new(nothing, std::ptr::null(), 0)),
            partitions: Partitions::new(threads),
        }
    }

    /// The main loop of worker number `thread`: joins jobs until the team is closed.
    pub(super) fn serve(&self, thread: usize) {
        let mut seen = 0;
        while self.gate.join(&mut seen) {
            // SAFETY: the gate has let this thread in, and it leaves only afterwards.
            unsafe { self.work(thread) };
            self.gate.leave();
        }
    }

    /// Ends the workers. No thread may submit any more.
    pub(super) fn close(&self) {
        self.gate.close();
    }

    /// Executes all calls of `job`, together with the workers that join. Returns false, without any call, if the team
    /// has another job.
    ///
    /// # Safety
    /// Until this returns, `job.task` may be called on any thread with `job.ctx` and a number below `job.count`.
    pub(super) unsafe fn submit(&self, job: Job) -> bool {
        let taken = self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        // SAFETY: this thread set `busy`, and the gate is shut: nobody else reads or writes `job`.
        self.job.with_mut(|slot| unsafe { *slot = job });
        self.partitions.fill(job.count);
        self.gate.open();
        // SAFETY: `job` stays until this thread takes `busy` away again, below.
        unsafe { self.work(0) };
        self.gate.shut();
        self.busy.store(false, Ordering::Release);
        true
    }

    /// Executes calls of the current job until none are left.
    ///
    /// # Safety
    /// The thread has set `busy`, or has joined and not left.
    unsafe fn work(&self, thread: usize) {
        // SAFETY: as the caller promises, `submit` does not write `job` now.
        let Job { task, ctx, count, caller, lanes_ref } = self.job.with(|job| unsafe { *job });
        let calls = || {
            let mut has_any = false;
            self.partitions.drain(count, thread, |index| {
                has_any = true;
                // SAFETY: the submitter of `job` guarantees `ctx` until this thread leaves, and `index` is below
                // `count`.
                unsafe { task(ctx, index) };
            });
            has_any
        };
        // SAFETY: who submitted `job` is in `caller` until this thread has left.
        let calls = || unsafe { exit_guard::on_behalf(caller, calls) };
        // SAFETY: who submitted `job` stays where its jobs are `lanes_ref` until this thread has left.
        unsafe { lanes_ref.around(thread, calls) };
    }
}
