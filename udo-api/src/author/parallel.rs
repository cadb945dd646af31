//! The parallel-for of kernels. The part that runs on workers is compiled into the package.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::rows::RowsMut;
use crate::abi::ParallelTable;
use crate::element::Element;
use crate::error::{ExecError, Status};
use crate::guard::{self, GuardCell, Traces};

/// The host's heap-free parallel-for.
#[derive(Clone, Copy)]
pub struct Parallel<'a> {
    table: Option<&'a ParallelTable>,
}

impl fmt::Debug for Parallel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parallel").field("width", &self.width()).finish()
    }
}

/// The body of a loop, behind `dyn` so that its caller is compiled once instead of per body.
type Body<'f> = dyn Fn(usize) -> Result<(), ExecError> + Sync + 'f;

/// The body of a loop over chunks of elements.
type ChunkBody<'f, T> = dyn Fn(usize, &mut [T]) -> Result<(), ExecError> + Sync + 'f;

/// The state that the calls of one parallel-for share.
struct Task<'f> {
    body: &'f Body<'f>,
    stop: Stop<'f>,
    failed: AtomicBool,
    // Locked only after a failure.
    failure: Mutex<Failure>,
}

/// The cancellation word of the run, if there is one.
#[derive(Clone, Copy)]
struct Stop<'a>(Option<&'a AtomicU32>);

impl Stop<'_> {
    fn is_set(self) -> bool {
        self.0.is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }

    fn check(self) -> Result<(), ExecError> {
        if self.is_set() { Err(ExecError::new(Status::CANCELLED)) } else { Ok(()) }
    }
}

struct Failure {
    error: ExecError,
    traces: Traces,
}

impl<'a> Parallel<'a> {
    /// Wraps the parallel-for of a table, or one that runs every call on its caller.
    ///
    /// # Safety
    /// The functions of the table follow the ABI for the lifetime of the borrow.
    pub const unsafe fn from_table(table: Option<&'a ParallelTable>) -> Self {
        Self { table }
    }

    /// Returns the number of threads that work at the same time, the caller included.
    pub fn width(&self) -> usize {
        self.table.map_or(1, |table| table.width.max(1) as usize)
    }

    fn stop(&self) -> Stop<'a> {
        let word = self.table.map(|table| table.stop.cast_mut()).filter(|word| !word.is_null());
        // SAFETY: the host writes the word atomically, and keeps it as long as the table.
        Stop(word.map(|word| unsafe { AtomicU32::from_ptr(word) }))
    }

    /// Calls `body` once for each number below `count`, in any order, on any thread. After a failed call or a
    /// cancellation, calls that have not started are skipped.
    ///
    /// # Errors
    /// The worst error of the calls; a panic or heap use on a worker counts as an error. [`Status::CANCELLED`] if the
    /// run was cancelled, whether calls were skipped or not.
    pub fn run<F>(&self, count: usize, body: F) -> Result<(), ExecError>
    where
        F: Fn(usize) -> Result<(), ExecError> + Sync,
    {
        self.run_each(count, &body)
    }

    fn run_each(&self, count: usize, body: &Body<'_>) -> Result<(), ExecError> {
        let stop = self.stop();
        let Some(table) = self.table.filter(|table| table.width > 1 && count > 1) else {
            return (0..count).try_for_each(|index| {
                stop.check()?;
                body(index)
            });
        };
        let failure = Failure { error: ExecError::new(Status::OK), traces: Traces::NONE };
        let (failed, failure) = (AtomicBool::new(false), Mutex::new(failure));
        let task = Task { body, stop, failed, failure };
        // SAFETY: `work` takes a task, and the host returns when all calls are done.
        unsafe { (table.run)(table.ctx, count, work, std::ptr::from_ref(&task).cast()) };
        if !task.failed.load(Ordering::Acquire) {
            return stop.check();
        }
        let failure = task.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        guard::with_this_thread(|cell| cell.adopt(&failure.traces));
        if failure.error.status == Status::OK { Ok(()) } else { Err(failure.error) }
    }

    /// Splits `data` into chunks of `len` elements, the last perhaps shorter, and calls `body` with each chunk and its
    /// index, in any order, on any thread. A `len` of 0 counts as 1.
    ///
    /// # Errors
    /// As [`Parallel::run`].
    pub fn chunks_mut<T, F>(&self, data: &mut [T], len: usize, body: F) -> Result<(), ExecError>
    where
        T: Element,
        F: Fn(usize, &mut [T]) -> Result<(), ExecError> + Sync,
    {
        self.each_chunk(data, len.max(1), &body)
    }

    fn each_chunk<T: Element>(
        &self,
        data: &mut [T],
        len: usize,
        body: &ChunkBody<'_, T>,
    ) -> Result<(), ExecError> {
        let total = data.len();
        let chunks = Chunks { data: data.as_mut_ptr(), marker: PhantomData };
        self.run_each(total.div_ceil(len), &|index| {
            let start = index * len;
            // SAFETY: `index` is below the number of chunks, so `start` is inside the slice.
            let first = unsafe { chunks.at(start) };
            // SAFETY: chunks do not overlap, and each index is used once, so this chunk is exclusive.
            body(index, unsafe { std::slice::from_raw_parts_mut(first, len.min(total - start)) })
        })
    }
}

impl Parallel<'_> {
    /// Works as [`Parallel::chunks_mut`] does, and passes each chunk its own `workspace_len` elements of `workspace`.
    ///
    /// # Errors
    /// As [`Parallel::run`], and if `workspace` is too short for all chunks.
    pub fn chunks_mut_with<T, R, F>(
        &self,
        data: &mut [T],
        len: usize,
        workspace: &mut [R],
        workspace_len: usize,
        body: F,
    ) -> Result<(), ExecError>
    where
        T: Element,
        R: Element,
        F: Fn(usize, &mut [T], &mut [R]) -> Result<(), ExecError> + Sync,
    {
        let count = data.len().div_ceil(len.max(1));
        let needed = count.saturating_mul(workspace_len);
        if needed > workspace.len() {
            let bytes = |len: usize| len.saturating_mul(size_of::<R>()) as u64;
            let bytes = [bytes(needed), bytes(workspace.len())];
            return Err(ExecError::with(Status::SCRATCH_EXCEEDED, bytes));
        }
        let workspaces = Chunks { data: workspace.as_mut_ptr(), marker: PhantomData };
        self.chunks_mut(data, len, |index, chunk| {
            // SAFETY: `index` is below the number of chunks, and the workspace was checked to cover all of them.
            let first = unsafe { workspaces.at(index * workspace_len) };
            // SAFETY: workspaces do not overlap, and each index is used once, so this one is exclusive.
            body(index, chunk, unsafe { std::slice::from_raw_parts_mut(first, workspace_len) })
        })
    }

    /// Calls `body` with each row of `rows` and its index, in any order, on any thread.
    ///
    /// # Errors
    /// As [`Parallel::run`].
    pub fn rows_mut<T, F>(&self, rows: &mut RowsMut<'_, T>, body: F) -> Result<(), ExecError>
    where
        T: Element,
        F: Fn(usize, &mut [T]) -> Result<(), ExecError> + Sync,
    {
        let count = rows.len();
        let (data, cols, stride) = rows.parts();
        let chunks = Chunks { data, marker: PhantomData };
        let grain_rows = count.div_ceil(self.width().saturating_mul(ROW_GRAINS)).max(1);
        self.run(count.div_ceil(grain_rows), |grain| {
            for index in grain * grain_rows..count.min((grain + 1) * grain_rows) {
                // SAFETY: `index` is below the number of rows, which are inside the host's buffer.
                let first = unsafe { chunks.at(index * stride) };
                // SAFETY: rows do not overlap, and each index is used once, so this row is exclusive.
                body(index, unsafe { std::slice::from_raw_parts_mut(first, cols) })?;
            }
            Ok(())
        })
    }
}

/// The number of grains (blocks of consecutive rows) per thread; a thread that starts late takes fewer grains.
const ROW_GRAINS: usize = 4;

/// A slice that several threads take disjoint chunks from.
struct Chunks<'a, T> {
    data: *mut T,
    marker: PhantomData<&'a mut [T]>,
}

// SAFETY: threads get disjoint chunks, as if `chunks_mut` had sent each to its thread.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<T> Chunks<'_, T> {
    /// # Safety
    /// `offset` must lie inside the slice.
    unsafe fn at(&self, offset: usize) -> *mut T {
        // SAFETY: `offset` lies inside the slice that `data` begins.
        unsafe { self.data.add(offset) }
    }
}

// SAFETY: called only through a `ParallelTable`, with the `ctx` that was passed with it: a `Task`.
unsafe extern "C" fn work(ctx: *const c_void, index: usize) {
    // SAFETY: `Parallel::run_each` passes a task that outlives every call.
    let task = unsafe { &*ctx.cast::<Task<'_>>() };
    // Relaxed is enough: the flag only skips useless calls, and readers of `failure` wait for all calls.
    if task.failed.load(Ordering::Relaxed) || task.stop.is_set() {
        return;
    }
    guard::with_this_thread(|cell| {
        cell.enter();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (task.body)(index)));
        let used_heap = cell.leave();
        let error = match outcome {
            Ok(Ok(())) if !used_heap => return,
            Ok(Ok(())) => ExecError::new(Status::OK),
            Ok(Err(error)) => error,
            Err(payload) => {
                cell.disarmed(|| guard::discard(payload));
                ExecError::new(Status::PANICKED)
            }
        };
        record(task, cell, error);
    });
}

/// Adds the error of one call to the task: its failure is the worst error of all calls.
#[cold]
fn record(task: &Task<'_>, cell: &GuardCell, error: ExecError) {
    // On the calling thread the region is still open, and its traces already belong to the caller.
    let traces = if cell.is_armed() { Traces::NONE } else { cell.take_traces() };
    let mut failure = task.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if failure.error.status.worse(error.status) != failure.error.status {
        failure.error = error;
    }
    failure.traces.merge(&traces);
    drop(failure);
    task.failed.store(true, Ordering::Release);
}
