//! Traces of runs: which thread did what when.

use std::num::NonZero;
use std::time::{Duration, Instant};

use udo_api::guard::heap_calls;

use udo_engine::thread_pool::Lanes;

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Planning for the shapes of the inputs, and allocating memory.
    Prepare,
    /// Planning during a run, for values that earlier plans computed.
    Replan,
    /// Running a step.
    Step {
        /// The index of its plan in the run.
        plan: usize,
        /// The index of the step in the plan.
        step: usize,
    },
}

/// A time span of one thread. The spans of a thread do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// 0 for the session's thread, else the number of a worker.
    pub thread: usize,
    /// The activity.
    pub kind: SpanKind,
    /// The start, relative to [`Trace::started`].
    pub start: Duration,
    /// The duration.
    pub time: Duration,
    /// The part of the duration in which the thread worked: a worker waits between the parallel loops of a step.
    pub busy: Duration,
    /// Calls of the program's allocator during the span, counted as in [`super::StepProfile`]; 0 for workers, whose
    /// calls count for the session's thread.
    pub heap_calls: u64,
}

/// The spans of runs, in memory that is allocated before them.
#[derive(Debug)]
pub struct Trace {
    spans: Vec<Span>,
    lost: usize,
    lanes: Lanes,
    /// The index of the current plan.
    plan: usize,
}

impl Trace {
    /// Allocates memory for `spans` spans of each of `threads` threads. Further spans are dropped and counted.
    pub fn new(threads: NonZero<usize>, spans: usize) -> Self {
        let lanes = Lanes::new(threads.get() - 1, spans);
        Self { spans: Vec::with_capacity(spans), lost: 0, lanes, plan: 0 }
    }

    /// Returns the time of creation, which spans are relative to.
    pub fn started(&self) -> Instant {
        self.lanes.started()
    }

    /// Removes all spans and keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.lost = 0;
        self.lanes.clear();
    }

    /// Returns all spans by thread, in chronological order.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let of_workers = self.lanes.stretches().filter_map(|stretch| {
            let kind = self.spans.get(stretch.work)?.kind;
            let (start, time, busy) = (stretch.start, stretch.time, stretch.busy);
            Some(Span { thread: stretch.thread, kind, start, time, busy, heap_calls: 0 })
        });
        self.spans.iter().copied().chain(of_workers)
    }

    /// Returns the number of dropped spans.
    pub fn lost(&self) -> usize {
        self.lost + self.lanes.lost()
    }

    /// Runs `body` and records its duration. Uses no heap itself.
    pub fn time<R>(&mut self, kind: SpanKind, body: impl FnOnce() -> R) -> R {
        let number = Some(self.spans.len()).filter(|&number| number < self.spans.capacity());
        let (heap, start) = (heap_calls(), Instant::now());
        let result = self.lanes.during(number, body);
        let (time, heap_calls) = (start.elapsed(), heap_calls() - heap);
        let start = start.saturating_duration_since(self.started());
        match number {
            Some(_) => {
                let span = Span { thread: 0, kind, start, time, busy: time, heap_calls };
                self.spans.push(span);
            }
            None => self.lost += 1,
        }
        result
    }

    /// Sets the index of the plan that runs now.
    pub(crate) fn at_plan(&mut self, plan: usize) {
        self.plan = plan;
    }

    pub(super) fn step<R>(&mut self, step: usize, body: impl FnOnce() -> R) -> R {
        self.time(SpanKind::Step { plan: self.plan, step }, body)
    }
}
