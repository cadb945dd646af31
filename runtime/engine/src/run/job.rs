//! The state of a launch between its submission and its end.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use std::{hint, mem};

use super::bound::Bindings;
use super::core_allocator::{AllocatedCores, CoreRequest};
use super::frames::Frames;
use super::log::{Recorder, RunSpanKind};
use super::queue::{Queue, WaitingRun};
use super::stream::Stream;
use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, SPIN};
use super::work::{Cause, Flag, Frame, Stop};
use super::{Callback, Copies, Priority, RunOptions, in_callback, lock};
use crate::device::{CoreSet, Device, DeviceId, DeviceTensor, Error, ErrorCode, Result};

/// A launch: its bound tensors and the progress of its run. It may be submitted again after the run has ended.
pub(crate) struct Job {
    frames: Arc<Frames>,
    stream: Option<Stream>,
    priority: Priority,
    cores: CoreSet,
    timeout: Option<Duration>,
    completion: Arc<Completion>,
    at: Mutex<Progress>,
    callback: Mutex<Option<Callback>>,
}

/// The part of a launch that waiters hold. It is separate, so that threads of queues no longer hold the tensors when waiters are
/// notified.
struct Completion {
    flag: Flag,
    seen: Mutex<Seen>,
    changed: Condvar,
    /// The last submission whose end was reported, for readers without the lock.
    reported: AtomicU64,
}

/// The visible state of a launch.
struct Seen {
    /// The number of submissions.
    submission: u64,
    is_in_flight: bool,
    /// The error of the last submission, after its end.
    failure: Option<Error>,
    /// The outcome of the submission whose end was reported last.
    outcome: Result<()>,
    wakers: Vec<Waker>,
}

/// The progress of a run. The thread that executes it holds the lock.
struct Progress {
    bound: Bindings,
    frame: Option<Frame>,
    part: usize,
    has_begun: bool,
    /// The change counter of its devices when it began.
    began: u64,
    /// Whether it has its turn in the shared workspace of its session.
    has_workspace: bool,
    /// Its number among the runs that named cores, if it did.
    named: Option<u64>,
    recorder: Recorder,
    /// Its number in its stream, and whether it got its turn there.
    in_stream: (u64, bool),
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = lock(&self.completion.seen);
        write!(f, "Job(submission {}, in flight: {})", seen.submission, seen.is_in_flight)
    }
}

/// The next step of a run.
enum Next {
    /// It continues on another device.
    Move(DeviceId),
    End,
}

impl Job {
    pub(super) fn new(
        frames: &Arc<Frames>,
        bound: Bindings,
        options: RunOptions,
    ) -> Result<Arc<Self>> {
        let RunOptions { timeout, priority, cores, stream, on_done } = options;
        if timeout.is_some() {
            frames.queues.timer.start().map_err(|error| {
                let why = format!("cannot create the thread that enforces time limits: {error}");
                Error::new(ErrorCode::OutOfMemory, why)
            })?;
        }
        let seen = Seen {
            submission: 0,
            is_in_flight: false,
            failure: None,
            outcome: Ok(()),
            wakers: Vec::new(),
        };
        let (has_begun, has_workspace, in_stream) = (false, false, (0, false));
        let recorder = Recorder::default();
        let (frame, named) = (None, None);
        let (part, began) = (0, 0);
        let at = Progress {
            bound,
            frame,
            part,
            has_begun,
            began,
            has_workspace,
            named,
            recorder,
            in_stream,
        };
        Ok(Arc::new(Self {
            frames: Arc::clone(frames),
            stream,
            priority: priority.unwrap_or_default(),
            cores: cores.unwrap_or_default(),
            timeout,
            completion: Arc::new(Completion {
                flag: Flag::default(),
                seen: Mutex::new(seen),
                changed: Condvar::new(),
                reported: AtomicU64::new(0),
            }),
            at: Mutex::new(at),
            callback: Mutex::new(on_done),
        }))
    }

    /// Submits the launch and returns the number of the submission. Allocates only if it fails.
    pub(super) fn submit(self: &Arc<Self>) -> Result<u64> {
        let submission = self.take()?;
        if let Some(at) = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
            self.frames.queues.timer.set(at, self, submission);
        }
        let begins = self.stream.as_ref().is_none_or(|stream| {
            // Nothing executes it before it is in the stream, so this lock is free.
            let mut at = lock(&self.at);
            at.in_stream = stream.enter(self);
            at.in_stream.1
        });
        if begins {
            admit(Arc::clone(self));
        } else {
            end_if_stopped(self);
        }
        Ok(submission)
    }

    /// Counts the run and takes all its leases.
    fn take(&self) -> Result<u64> {
        let mut seen = lock(&self.completion.seen);
        if seen.is_in_flight {
            let why = "the launch is in flight; wait for its run, or record another launch";
            return Err(Error::new(ErrorCode::Busy, why));
        }
        self.frames.enter()?;
        let mut at = lock(&self.at);
        at.bound.take().inspect_err(|_| {
            self.frames.leave(None);
        })?;
        at.named = self.frames.name_cores(self.cores);
        (at.part, at.has_begun) = (0, false);
        at.recorder = Recorder::submitted(self.frames.log.as_ref());
        self.completion.flag.clear();
        seen.is_in_flight = true;
        seen.failure = None;
        seen.submission += 1;
        Ok(seen.submission)
    }

    /// Returns whether a submission has ended and its callback has returned.
    pub(super) fn has_ended(&self, submission: u64) -> bool {
        self.completion.has_ended(submission)
    }

    /// Waits for the end of a submission, at most until `deadline`.
    pub(super) fn wait(&self, submission: u64, deadline: Option<Instant>) -> Result<()> {
        self.completion.wait(submission, deadline)
    }

    pub(super) fn poll(&self, submission: u64, waker: &Waker) -> Poll<Result<()>> {
        self.completion.poll(submission, waker)
    }

    /// Returns what was copied. Fails while the launch is in flight.
    pub(super) fn copies(&self) -> Result<Copies> {
        let seen = lock(&self.completion.seen);
        Ok(self.at_rest(&seen)?.bound.copies())
    }

    /// Returns an output of a submission that has ended successfully.
    pub(super) fn output(&self, submission: u64, index: usize) -> Result<DeviceTensor> {
        let seen = lock(&self.completion.seen);
        let at = self.at_rest(&seen)?;
        if seen.submission != submission {
            let why = "the launch was submitted again, so its outputs belong to a later run";
            return Err(Error::new(ErrorCode::InvalidState, why));
        }
        if let Some(failure) = &seen.failure {
            let why = format!("output {index} is not available because the run failed: {failure}");
            return Err(Error::new(ErrorCode::InvalidState, why));
        }
        let outputs = at.bound.outputs();
        let count = outputs.len();
        let output = outputs.get(index).ok_or_else(|| {
            let why = format!("output {index} does not exist; expected an index below {count}");
            Error::new(ErrorCode::InvalidArgument, why)
        })?;
        output.clone().ok_or_else(|| {
            Error::new(ErrorCode::Internal, format!("a successful run has no output {index}"))
        })
    }

    /// Locks the progress of a launch that is not in flight. While `seen` is locked it cannot be submitted, so nothing else holds
    /// this lock for long.
    fn at_rest(&self, seen: &Seen) -> Result<MutexGuard<'_, Progress>> {
        if seen.is_in_flight {
            return Err(Error::new(ErrorCode::Busy, "the run is in flight; wait for it first"));
        }
        Ok(lock(&self.at))
    }
}

impl Completion {
    fn has_ended(&self, submission: u64) -> bool {
        self.reported.load(Ordering::Acquire) >= submission
    }

    fn wait(&self, submission: u64, deadline: Option<Instant>) -> Result<()> {
        self.spin(submission);
        let mut seen = lock(&self.seen);
        while !self.has_ended(submission) {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            seen = match left {
                None => self.changed.wait(seen).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let why = "the run has not ended within the timeout; it continues";
                    return Err(Error::new(ErrorCode::Timeout, why));
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(seen, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        self.outcome(&seen, submission)
    }

    /// Spins for a while until a submission ends.
    fn spin(&self, submission: u64) {
        let start = Instant::now();
        while !self.has_ended(submission) && start.elapsed() < SPIN {
            for _ in 0..16 {
                hint::spin_loop();
            }
        }
    }

    fn poll(&self, submission: u64, waker: &Waker) -> Poll<Result<()>> {
        let mut seen = lock(&self.seen);
        if self.has_ended(submission) {
            return Poll::Ready(self.outcome(&seen, submission));
        }
        if !seen.wakers.iter().any(|other| other.will_wake(waker)) {
            seen.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    fn outcome(&self, seen: &Seen, submission: u64) -> Result<()> {
        if self.reported.load(Ordering::Acquire) == submission {
            return seen.outcome.clone();
        }
        let why = "the launch was submitted again, and the later run has ended; wait for each run before submitting the next";
        Err(Error::new(ErrorCode::InvalidState, why))
    }

    /// Records the outcome of a submission and notifies waiting threads. Returns the wakers of waiting tasks.
    fn report(&self, submission: u64, outcome: Result<()>) -> Vec<Waker> {
        let wakers = {
            let mut seen = lock(&self.seen);
            if self.has_ended(submission) {
                return Vec::new();
            }
            seen.outcome = outcome;
            self.reported.store(submission, Ordering::Release);
            std::mem::take(&mut seen.wakers)
        };
        self.changed.notify_all();
        wakers
    }
}

impl WaitingRun for Job {
    fn priority(&self) -> Priority {
        self.priority
    }

    fn core_request(&self, device: &Device) -> CoreRequest {
        self.frames.core_request(self.cores, device)
    }

    fn is_stopped(&self) -> bool {
        self.completion.flag.is_set()
    }

    fn take_turn(self: Arc<Self>) {
        lock(&self.at).in_stream.1 = true;
        admit(self);
    }

    fn begin(self: Arc<Self>, frame: Frame) {
        let device = frame.device(0);
        lock(&self.at).frame = Some(frame);
        match device {
            Some(device) => enqueue(self, device),
            None => end(self, Err(no_device())),
        }
    }

    fn continue_in_workspace(self: Arc<Self>) {
        let device = {
            let mut at = lock(&self.at);
            at.has_workspace = true;
            at.frame.as_ref().and_then(|frame| frame.device(at.part))
        };
        match device {
            Some(device) => enqueue(self, device),
            None => end(self, Err(no_device())),
        }
    }

    fn proceed(self: Arc<Self>, cores: AllocatedCores, queue: &Queue) -> bool {
        if !has_workspace(&self) {
            queue.give_back(cores);
            return false;
        }
        let next = {
            let (mut at, used) = (lock(&self.at), &self.frames.used);
            if !at.has_begun {
                at.began = used.changes();
            }
            let stop =
                Stop { flag: &self.completion.flag, device: &queue.device, used, began: at.began };
            catch_unwind(AssertUnwindSafe(|| at.advance(stop))).unwrap_or_else(|_| {
                let why =
                    "the run panicked, which is a bug of this library; its message on standard error says where";
                Err(Error::new(ErrorCode::Internal, why))
            })
        };
        queue.give_back(cores);
        match next {
            Ok(Next::Move(device)) => {
                enqueue(self, device);
                false
            }
            Ok(Next::End) => end_with(self, Ok(()), || queue.start_spinning()),
            Err(error) => end_with(self, Err(error), || queue.start_spinning()),
        }
    }

    fn end_waiting(self: Arc<Self>, outcome: Result<()>) {
        lock(&self.at).recorder.note(RunSpanKind::Waits, None);
        end(self, outcome);
    }

    fn stop(self: Arc<Self>, submission: u64, cause: Cause) {
        {
            let seen = lock(&self.completion.seen);
            if !seen.is_in_flight || seen.submission != submission {
                return;
            }
            self.completion.flag.set(cause);
        }
        end_if_stopped(&self);
    }
}

/// Ends a stopped run that is waiting: removes it from wherever it waits. Code that moves a run to another list calls this too,
/// so that a concurrent stop is never missed.
fn end_if_stopped(job: &Arc<Job>) {
    if !job.completion.flag.is_set() {
        return;
    }
    let run = &**job;
    let Job { frames, stream, .. } = run;
    let waits_in_stream = stream.as_ref().is_some_and(|stream| stream.remove(run));
    let waits_for_workspace = || frames.workspace.as_ref().is_some_and(|of| of.remove(run));
    if waits_in_stream || frames.remove(run) || waits_for_workspace() || frames.queues.remove(run) {
        Arc::clone(job).end_waiting(job.completion.flag.error().map_or(Ok(()), Err));
    }
}

/// Does the same for a run that was put into a list, and may have ended since.
fn end_if_stopped_since(completion: &Completion, job: &Weak<Job>) {
    if completion.flag.is_set()
        && let Some(job) = job.upgrade()
    {
        end_if_stopped(&job);
    }
}

/// Begins a run that has its turn, as soon as there is a frame.
fn admit(job: Arc<Job>) {
    if let Some(frame) = job.frames.take(&job) {
        return job.begin(frame);
    }
    let (completion, waits) = (Arc::clone(&job.completion), Arc::downgrade(&job));
    drop(job);
    end_if_stopped_since(&completion, &waits);
}

fn no_device() -> Error {
    Error::new(ErrorCode::Internal, "the session has no device to begin on")
}

/// Puts a run into a device's queue.
fn enqueue(job: Arc<Job>, device: DeviceId) {
    match job.frames.queues.queue(device) {
        Ok(queue) => {
            let (completion, pushed) = (Arc::clone(&job.completion), Arc::downgrade(&job));
            queue.push(job);
            end_if_stopped_since(&completion, &pushed);
        }
        Err(error) => end(job, Err(error)),
    }
}

/// Returns whether a run has its turn in the shared workspace of its session, or needs none. Otherwise the run waits there.
fn has_workspace(job: &Arc<Job>) -> bool {
    let Some(workspace) = &job.frames.workspace else { return true };
    {
        // The thread that gives the run its turn waits for this lock, so the turn is recorded afterwards.
        let mut at = lock(&job.at);
        if !at.has_workspace {
            at.has_workspace = workspace.take(job);
        }
        if at.has_workspace {
            return true;
        }
    }
    end_if_stopped(job);
    false
}

impl Progress {
    fn advance(&mut self, stop: Stop<'_>) -> Result<Next> {
        let Self { bound, frame, part, has_begun, recorder, .. } = self;
        let device = Some(stop.device.id());
        recorder.note(RunSpanKind::Waits, device);
        let Some(frame) = frame else {
            return Err(Error::new(ErrorCode::Internal, "the run has no frame"));
        };
        stop.check()?;
        if !*has_begun {
            stop.used.check_there()?;
            let begun = frame.begin(bound);
            recorder.note(RunSpanKind::Begins, device);
            begun?;
            *has_begun = true;
        }
        loop {
            match frame.device(*part) {
                None => {
                    let given = frame.end(bound);
                    recorder.note(RunSpanKind::Gives, device);
                    return given.map(|()| Next::End);
                }
                Some(device) if device != stop.device.id() => return Ok(Next::Move(device)),
                Some(_) => {
                    let ran = frame.run(*part, &stop);
                    recorder.note(RunSpanKind::Part(*part), device);
                    ran?;
                }
            }
            stop.check()?;
            *part += 1;
        }
    }
}

/// Ends a run: returns its resources, notifies waiters, and starts what waited for it.
fn end(job: Arc<Job>, outcome: Result<()>) {
    end_with(job, outcome, || ());
}

/// Ends a run as [`end`] does. Calls `before` after the run's callback and before waiters are notified.
fn end_with<R>(job: Arc<Job>, outcome: Result<()>, before: impl FnOnce() -> R) -> R {
    if job.timeout.is_some() {
        job.frames.queues.timer.clear(&*job);
    }
    let (frame, had_workspace, named, (number, had_turn), mut recorder) = {
        let mut at = lock(&job.at);
        at.bound.give_back();
        let had_workspace = mem::take(&mut at.has_workspace);
        let (frame, named) = (at.frame.take(), at.named.take());
        (frame, had_workspace, named, at.in_stream, mem::take(&mut at.recorder))
    };
    if let Some(workspace) = job.frames.workspace.as_ref().filter(|_| had_workspace) {
        workspace.leave();
    }
    let next = job.frames.leave(frame);
    let submission = {
        let mut seen = lock(&job.completion.seen);
        seen.is_in_flight = false;
        seen.failure = outcome.as_ref().err().cloned();
        seen.submission
    };
    if let Some((next, frame)) = next {
        next.begin(frame);
    }
    if let Some(callback) = &mut *lock(&job.callback) {
        in_callback(|| callback(&outcome));
    }
    recorder.note(RunSpanKind::Ends(outcome.as_ref().err().map(Error::code)), None);
    let (stream, completion) = (job.stream.clone(), Arc::clone(&job.completion));
    let named = named.map(|serial| (serial, Arc::clone(&job.frames)));
    drop(job);
    let done_before = before();
    let (next, wakers) = match &stream {
        Some(stream) => {
            let failure = outcome.as_ref().err().cloned();
            stream.leave((number, had_turn), failure, || completion.report(submission, outcome))
        }
        None => (None, completion.report(submission, outcome)),
    };
    wakers.into_iter().for_each(Waker::wake);
    if let Some((serial, frames)) = named {
        frames.forget_cores(serial);
    }
    if let Some(next) = next {
        next.take_turn();
    }
    done_before
}
