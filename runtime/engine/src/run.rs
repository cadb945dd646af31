//! Runs beside their caller: [`Run`], [`Launch`], [`Stream`], and the queues of devices that they go through.
//!
//! A launch is recorded once: what it reads and writes. It is submitted as often as wanted, which takes leases of all its
//! tensors, and the heap of none. Its run waits for its turn in its stream, then for a frame of its session, then for the
//! first device that it needs; a queue's thread takes it on there, and hands it to the next device. Whoever waits is told once
//! its leases are given back.
//!
//! The module knows no model: what is run is the trait `Work`.

mod at_work;
mod bound;
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

pub use bound::Bound;
pub use frames::{FrameOptions, Frames};
use job::Job;
pub use log::{RunLog, RunSpan, RunSpanKind};
pub use queue::Waiting;
use queue::WaitingRun;
pub use queues::Queues;
pub use stream::Stream;
use sync::{Mutex, MutexGuard};
pub use work::{Stop, Work};
pub use workspace::{SharedWorkspace, UseWorkspace};

/// What matters most: queues have runs of higher priority go before others that have not begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// When nothing else waits.
    Low,
    /// As usual.
    #[default]
    Medium,
    /// Before all others.
    High,
}

impl Priority {
    const COUNT: usize = 3;

    /// Its place among queues, the highest first.
    const fn place(self) -> usize {
        match self {
            Self::High => 0,
            Self::Medium => 1,
            Self::Low => 2,
        }
    }
}

/// What is called once a run has ended and its leases are given back, on whichever thread that happens.
pub type Callback = Box<dyn FnMut(&Result<()>) + Send>;

/// How a run is submitted.
#[derive(Default)]
pub struct RunOptions {
    /// How long it may take from its submission to its end. What runs over that is told to end, and ends between two steps or calls of a parallel-for:
    /// its leases are kept as long as it does not.
    pub timeout: Option<Duration>,
    /// What matters most; as the model says where nothing is said.
    pub priority: Option<Priority>,
    /// On which cores of the session's device it runs; as the session says where nothing is said.
    pub cores: Option<CoreSet>,
    /// Behind which other runs it begins.
    pub stream: Option<Stream>,
    /// What is called exactly once for each submission, before who waits goes on. It may submit, and release
    /// anything; it must not wait for runs, which is refused.
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

/// What a run copied between the tensors that it is bound to and memory of its session. It uses the others where they lie:
/// those whose elements are one batch behind the other, in coherent memory that only leases lead to, and whose extents the
/// plan knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Inputs that were copied.
    pub inputs: usize,
    /// Outputs that were copied.
    pub outputs: usize,
    /// Bytes of both.
    pub bytes: u64,
}

impl Copies {
    fn of(inputs: usize, outputs: usize, bytes: usize) -> Self {
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

/// A launch that is recorded: a session's work over these tensors. Submitting it uses no heap.
#[derive(Debug)]
pub struct Launch(Arc<Job>);

impl Frames {
    /// Records a run of a session over bound tensors, to be submitted once or many times.
    ///
    /// # Errors
    /// The options do not fit the session.
    pub fn record(self: &Arc<Self>, bound: Bound, options: RunOptions) -> Result<Launch> {
        Job::new(self, bound, options).map(Launch)
    }
}

impl Launch {
    /// Submits it. This never waits for anything to be computed.
    ///
    /// # Errors
    /// It is in flight already; somebody is at a tensor of it; the session has as many runs in flight as it
    /// takes; a device is lost. Nothing has changed then.
    pub fn submit(&self) -> Result<Run> {
        let submission = self.0.submit()?;
        Ok(Run { job: Arc::clone(&self.0), submission })
    }
}

/// A run that was submitted. Any thread may wait for it, as often as it likes; it is a [`Future`] as well. Dropping it changes
/// nothing: the run goes on, and keeps what it needs.
#[derive(Clone, Debug)]
pub struct Run {
    job: Arc<Job>,
    submission: u64,
}

impl Run {
    /// Waits for its end.
    ///
    /// # Errors
    /// How it failed; or a callback waits, which might never end.
    pub fn wait(&self) -> Result<()> {
        check_may_wait()?;
        self.job.wait(self.submission, None)
    }

    /// Waits for its end, as long as `timeout` at most. The run itself is not ended by that.
    ///
    /// # Errors
    /// How it failed; [`ErrorCode::Timeout`] if it has not ended; or a callback waits.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        check_may_wait()?;
        self.job.wait(self.submission, Instant::now().checked_add(timeout))
    }

    /// What it copied of its inputs and outputs.
    ///
    /// # Errors
    /// A run of its launch is in flight.
    pub fn copies(&self) -> Result<Copies> {
        self.job.copies()
    }

    /// Whether it has ended, its callback included.
    pub fn is_done(&self) -> bool {
        self.job.has_ended(self.submission)
    }

    /// Asks it to end, as [`ErrorCode::Cancelled`]: at once where it has not begun, else between two steps or two calls of a parallel-for. Nothing, if it
    /// has ended.
    pub fn cancel(&self) {
        Arc::clone(&self.job).stop(self.submission, work::Cause::Cancelled);
    }

    /// An output, in the shape that the run gave it; one that was left to the run lies in memory of the session's device, and the
    /// next run of the same launch writes it again.
    ///
    /// # Errors
    /// The run has not ended, or not well; its launch was submitted again; or there is no such output.
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
    /// Whether the thread is in a callback.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

fn in_callback(callback: impl FnOnce()) {
    let before = IN_CALLBACK.replace(true);
    callback();
    IN_CALLBACK.set(before);
}

/// Refuses to wait in a callback: that runs on a thread of a queue, so what is waited for might wait for it.
fn check_may_wait() -> Result<()> {
    if !IN_CALLBACK.get() {
        return Ok(());
    }
    let why = "a callback waits for a run, which may wait for the callback; submit there, and wait elsewhere";
    Err(Error::new(ErrorCode::InvalidState, why))
}

/// What no thread leaves broken in the middle is fine after a panic as well.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
