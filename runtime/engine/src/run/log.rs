//! A log of when runs waited and executed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::lock;
use super::sync::{AtomicU64, Mutex};
use crate::device::{DeviceId, ErrorCode};

/// The activity of a run in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSpanKind {
    /// It waited in its stream, for a frame, or in the queue of a device.
    Waits,
    /// It took its inputs and copied those that cannot be used in place.
    Begins,
    /// A device executed the part with this index.
    Part(usize),
    /// It delivered its outputs and copied those that were not written in place.
    Gives,
    /// It ended successfully or with this error: from the return of its leases to the end of its callback.
    Ends(Option<ErrorCode>),
}

/// A span of time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpan {
    /// The number of the run in the log, in the order of submission.
    pub run: u64,
    /// The activity.
    pub kind: RunSpanKind,
    /// The device that executed the run, or that it waited for.
    pub device: Option<DeviceId>,
    /// The start, relative to the creation of the log.
    pub start: Duration,
    /// The duration.
    pub time: Duration,
}

/// A log of runs (`SessionOptions::log`). It has a fixed capacity; further spans are only counted.
#[derive(Debug)]
pub struct RunLog {
    started: Instant,
    runs: AtomicU64,
    spans: Mutex<Spans>,
}

#[derive(Debug)]
struct Spans {
    kept: Vec<RunSpan>,
    lost: usize,
}

impl RunLog {
    /// Creates a log for this number of spans. A run has a span for each time that it waits, for its beginning, each part, its
    /// outputs and its end.
    pub fn with_room(spans: usize) -> Arc<Self> {
        let spans = Mutex::new(Spans { kept: Vec::with_capacity(spans), lost: 0 });
        Arc::new(Self { started: Instant::now(), runs: AtomicU64::new(0), spans })
    }

    /// Returns the time of its creation, which span times are relative to.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns the recorded spans, in the order of their ends.
    pub fn spans(&self) -> Vec<RunSpan> {
        lock(&self.spans).kept.clone()
    }

    /// Returns the number of spans that exceeded the capacity.
    pub fn lost(&self) -> usize {
        lock(&self.spans).lost
    }
}

/// The recorder of a run, if it is logged.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(Option<(Arc<RunLog>, u64, Instant)>);

impl Recorder {
    /// Starts recording a run that is submitted now.
    pub(super) fn submitted(log: Option<&Arc<RunLog>>) -> Self {
        Self(
            log.map(|log| {
                (Arc::clone(log), log.runs.fetch_add(1, Ordering::Relaxed), Instant::now())
            }),
        )
    }

    /// Records an activity since the last call. Does not allocate.
    pub(super) fn note(&mut self, kind: RunSpanKind, device: Option<DeviceId>) {
        let Some((log, run, since)) = &mut self.0 else { return };
        let now = Instant::now();
        let start = since.saturating_duration_since(log.started);
        let span = RunSpan { run: *run, kind, device, start, time: now - *since };
        *since = now;
        let mut spans = lock(&log.spans);
        if spans.kept.len() < spans.kept.capacity() {
            spans.kept.push(span);
        } else {
            spans.lost += 1;
        }
    }
}
