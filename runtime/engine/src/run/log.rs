//! When runs waited, and which device was at them when, for who wants to see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::lock;
use super::sync::{AtomicU64, Mutex};
use crate::device::{DeviceId, ErrorCode};

/// What went on with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSpanKind {
    /// It waited: in its stream, for a frame, or in the queue of a device.
    Waits,
    /// It took its inputs: those that it cannot use where they lie were copied.
    Begins,
    /// A device was at a part of it, with this number.
    Part(usize),
    /// It gave its outputs, likewise.
    Gives,
    /// It ended, well or by this error; from the return of its leases to the end of its callback.
    Ends(Option<ErrorCode>),
}

/// Some time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpan {
    /// The number of the run among those of the log, in the order of submission.
    pub run: u64,
    /// What it did.
    pub kind: RunSpanKind,
    /// The device that was at it, or whose turn came after it waited.
    pub device: Option<DeviceId>,
    /// From when the log was made.
    pub start: Duration,
    /// How long.
    pub time: Duration,
}

/// Where sessions note their runs (`SessionOptions::log`). It has room for a number of spans; further ones are counted.
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
    /// A log with room for so many spans: each run has one for each time that it waits, for its beginning, its parts, its outputs
    /// and its end.
    pub fn with_room(spans: usize) -> Arc<Self> {
        let spans = Mutex::new(Spans { kept: Vec::with_capacity(spans), lost: 0 });
        Arc::new(Self { started: Instant::now(), runs: AtomicU64::new(0), spans })
    }

    /// When it was made, from which on times count.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// What was noted, in the order in which it ended.
    pub fn spans(&self) -> Vec<RunSpan> {
        lock(&self.spans).kept.clone()
    }

    /// How many spans there was no room for.
    pub fn lost(&self) -> usize {
        lock(&self.spans).lost
    }
}

/// How a run is noted, if anybody wants it to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted(Option<(Arc<RunLog>, u64, Instant)>);

impl Noted {
    /// A run that is submitted now.
    pub(super) fn submitted(log: Option<&Arc<RunLog>>) -> Self {
        Self(
            log.map(|log| {
                (Arc::clone(log), log.runs.fetch_add(1, Ordering::Relaxed), Instant::now())
            }),
        )
    }

    /// Notes what went on since the last time that this was called. No heap.
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
