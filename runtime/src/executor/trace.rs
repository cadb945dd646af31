//! A run as it was: which thread did what when.

use std::num::NonZero;
use std::time::{Duration, Instant};

use udo_api::guard::heap_calls;

use udo_engine::thread_pool::Lanes;

/// What a thread did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It planned for the shapes of the inputs, and took the memory.
    Prepare,
    /// The same in a run, for what the plans before had computed.
    Replan,
    /// It worked at a step.
    Step {
        /// The number of its plan among those of the run.
        plan: usize,
        /// The number of the step in that.
        step: usize,
    },
}

/// What one thread did from some time on. Those of a thread do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// 0 for the thread of the session, else the number of a worker.
    pub thread: usize,
    /// What it did.
    pub kind: SpanKind,
    /// When it began, counted from [`Trace::started`] on.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// How much of that the thread worked: a worker waits between the parallel-fors of a step.
    pub busy: Duration,
    /// Calls of the program's allocator meanwhile, as [`super::StepProfile`] counts them; 0 for workers, as they are counted
    /// with the thread of the session.
    pub heap_calls: u64,
}

/// Spans of runs, in memory that is taken before them.
#[derive(Debug)]
pub struct Trace {
    spans: Vec<Span>,
    lost: usize,
    lanes: Lanes,
    /// The plan that runs.
    plan: usize,
}

impl Trace {
    /// Room for `spans` spans of each of `threads` threads. Those for which there is none are counted.
    pub fn new(threads: NonZero<usize>, spans: usize) -> Self {
        let lanes = Lanes::new(threads.get() - 1, spans);
        Self { spans: Vec::with_capacity(spans), lost: 0, lanes, plan: 0 }
    }

    /// When it was made, from which on times count.
    pub fn started(&self) -> Instant {
        self.lanes.started()
    }

    /// Forgets all spans and keeps the room for them.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.lost = 0;
        self.lanes.clear();
    }

    /// All spans, thread by thread, in the order of time.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let of_workers = self.lanes.stretches().filter_map(|stretch| {
            let kind = self.spans.get(stretch.work)?.kind;
            let (start, time, busy) = (stretch.start, stretch.time, stretch.busy);
            Some(Span { thread: stretch.thread, kind, start, time, busy, heap_calls: 0 })
        });
        self.spans.iter().copied().chain(of_workers)
    }

    /// How many spans there was no room for.
    pub fn lost(&self) -> usize {
        self.lost + self.lanes.lost()
    }

    /// Runs `body` and notes how long it took. Uses no heap itself.
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

    /// A run begins, or goes on, with plan `plan`.
    pub(crate) fn at_plan(&mut self, plan: usize) {
        self.plan = plan;
    }

    pub(super) fn step<R>(&mut self, step: usize, body: impl FnOnce() -> R) -> R {
        self.time(SpanKind::Step { plan: self.plan, step }, body)
    }
}
