//! Asynchronous runs: [`Run`], [`Launch`], [`Stream`], and the queues of devices that runs go through.
//!
//! A launch records once which tensors a run reads and writes. It can be submitted any number of times. Submitting leases all its
//! tensors and does not allocate. The run then waits for its turn in its stream, for a free frame of its session, and for the
//! first device that it needs. A thread of the device's queue executes its part there and passes it to the next device. Waiters
//! are notified after the leases were released.
//!
//! This module is independent of models: the trait `Work` is what runs.

mod bound;
mod core_allocator;
mod frames;
mod job;
mod log;
#[cfg(all(test, loom))]
mod models;
mod queue;
mod queues;
mod stream;
#[cfg_attr(all(test, loom), path = "run/sync_loom.rs")]
#[cfg_attr(not(all(test, loom)), path = "run/sync_std.rs")]
mod sync;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod timer;
mod work;
mod workspace;

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::device::{CoreSet, DeviceTensor, Error, ErrorCode, Result};

pub use bound::Bindings;
pub use frames::{FrameOptions, Frames};
use job::Job;
pub use log::{RunLog, RunSpan, RunSpanKind};
pub use queue::DeviceLoad;
use queue::WaitingRun;
pub use queues::Queues;
pub use stream::Stream;
use sync::{Mutex, MutexGuard};
pub use work::{Stop, Work};
pub use workspace::{SharedWorkspace, UseWorkspace};

/// The priority of a run. Queues start runs of higher priority first; a run that has started is not interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Runs when nothing else waits.
    Low,
    /// The default.
    #[default]
    Medium,
    /// Runs before all others.
    High,
}

impl Priority {
    const COUNT: usize = 3;

    /// Returns its index among lists of runs, the highest priority first.
    const fn place(self) -> usize {
        match self {
            Self::High => 0,
            Self::Medium => 1,
            Self::Low => 2,
        }
    }
}

/// A function that is called after a run has ended and released its leases, on whichever thread that happens.
pub type Callback = Box<dyn FnMut(&Result<()>) + Send>;

/// Options of a submission.
#[derive(Default)]
pub struct RunOptions {
    /// The time limit from submission to end. A run that exceeds it is stopped between two steps or two calls of a parallel-for.
    /// It keeps its leases until then.
    pub timeout: Option<Duration>,
    /// The priority; by default that of the model.
    pub priority: Option<Priority>,
    /// The cores of the session's device that it runs on; by default those of the session.
    pub cores: Option<CoreSet>,
    /// The stream whose earlier runs must end before this one begins.
    pub stream: Option<Stream>,
    /// The callback. It is called exactly once per submission, before waiters continue. It may submit runs and release anything.
    /// It must not wait for runs; attempts fail.
    pub on_done: Option<Callback>,
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timeout, priority, cores, stream, on_done } = self;
        f.debug_struct("RunOptions")
            .field("timeout", timeout)
            .field("priority", priority)
            .field("cores", cores)
            .field("stream", stream)
            .field("on_done", &on_done.is_some())
            .finish()
    }
}

/// The data that a run copied between its bound tensors and the memory of its session. Other tensors are used in place: those
/// with contiguous batches in coherent memory that is only accessed through leases, and with extents that the plan knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// The number of copied inputs.
    pub inputs: usize,
    /// The number of copied outputs.
    pub outputs: usize,
    /// The number of copied bytes.
    pub bytes: u64,
}

impl Copies {
    fn new(inputs: usize, outputs: usize, bytes: usize) -> Self {
        if bytes == 0 {
            return Self::default();
        }
        Self { inputs, outputs, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) }
    }

    fn and(self, other: Self) -> Self {
        Self {
            inputs: self.inputs + other.inputs,
            outputs: self.outputs + other.outputs,
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// A recorded launch: the work of a session with these tensors. Submitting it does not allocate.
#[derive(Debug)]
pub struct Launch(Arc<Job>);

impl Frames {
    /// Records a run of a session over bound tensors, to be submitted once or many times.
    ///
    /// # Errors
    /// The options do not fit the session.
    pub fn record(self: &Arc<Self>, bound: Bindings, options: RunOptions) -> Result<Launch> {
        Job::new(self, bound, options).map(Launch)
    }
}

impl Launch {
    /// Submits it. This never waits for anything to be computed.
    ///
    /// # Errors
    /// Fails without a change if the launch is in flight, one of its tensors is in use, the session has its maximal number of
    /// runs in flight, or a device is lost.
    pub fn submit(&self) -> Result<Run> {
        let submission = self.0.submit()?;
        Ok(Run { job: Arc::clone(&self.0), submission })
    }
}

/// A submitted run.
///
/// Any thread may wait for it, any number of times. It is also a [`Future`]. Dropping it has no effect: the run continues and
/// keeps what it needs.
#[derive(Clone, Debug)]
pub struct Run {
    job: Arc<Job>,
    submission: u64,
}

impl Run {
    /// Waits until the run has ended.
    ///
    /// # Errors
    /// Returns the error of the run. Fails in a callback, where waiting might never end.
    pub fn wait(&self) -> Result<()> {
        check_may_wait()?;
        self.job.wait(self.submission, None)
    }

    /// Waits at most `timeout` until the run has ended. The run continues after a timeout.
    ///
    /// # Errors
    /// Returns the error of the run, or [`ErrorCode::Timeout`] if it has not ended. Fails in a callback.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        check_may_wait()?;
        self.job.wait(self.submission, Instant::now().checked_add(timeout))
    }

    /// Returns what the run copied of its inputs and outputs.
    ///
    /// # Errors
    /// Fails while a run of its launch is in flight.
    pub fn copies(&self) -> Result<Copies> {
        self.job.copies()
    }

    /// Returns whether the run has ended and its callback has returned.
    pub fn is_done(&self) -> bool {
        self.job.has_ended(self.submission)
    }

    /// Requests that the run end with [`ErrorCode::Cancelled`]: immediately if it has not begun, otherwise between two steps or
    /// two calls of a parallel-for. Has no effect if it has ended.
    pub fn cancel(&self) {
        Arc::clone(&self.job).stop(self.submission, work::Cause::Cancelled);
    }

    /// Returns an output with the shape that the run gave it. An output that was not bound to a tensor is in memory of the
    /// session's device; the next run of the same launch overwrites it.
    ///
    /// # Errors
    /// Fails if the run has not ended successfully, its launch was submitted again, or the output does not exist.
    pub fn output(&self, index: usize) -> Result<DeviceTensor> {
        self.job.output(self.submission, index)
    }
}

impl Future for Run {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.job.poll(self.submission, cx.waker())
    }
}

thread_local! {
    /// Whether the thread executes a callback.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

fn in_callback(callback: impl FnOnce()) {
    let before = IN_CALLBACK.replace(true);
    callback();
    IN_CALLBACK.set(before);
}

/// Fails in a callback. Callbacks run on threads of queues, so the awaited run might wait for this thread.
fn check_may_wait() -> Result<()> {
    if !IN_CALLBACK.get() {
        return Ok(());
    }
    let why = "a callback cannot wait for a run, which may wait for the callback; submit in the callback, and wait elsewhere";
    Err(Error::new(ErrorCode::InvalidState, why))
}

/// Locks a mutex. Poison is ignored: no panic leaves the guarded data inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
