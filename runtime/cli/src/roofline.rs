//! The measured limits of the machine, and how long steps would take at these limits.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZero;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use udo_api::Arithmetic;
use udo_runtime::Session;
use udo_runtime::compile::StepReport;
use udo_runtime::run::{SpanKind, Trace};
use udo_simd::{peak_bf16, peak_flops, peak_ops8};

/// A step of a run.
pub(crate) struct RanStep<'a> {
    pub(crate) report: &'a StepReport,
    /// How often it ran: once per iteration in loops.
    pub(crate) calls: f64,
    /// How long all calls took.
    pub(crate) seconds: f64,
}

/// The steps of the last run of `session`, which `trace` noted, in the order of the plans.
pub(crate) fn steps<'a>(session: &'a Session, trace: &Trace) -> Vec<RanStep<'a>> {
    let mut ran: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for span in trace.spans().filter(|span| span.thread == 0) {
        if let SpanKind::Step { plan, step } = span.kind {
            let (calls, seconds) = ran.entry((plan, step)).or_default();
            *calls += 1.0;
            *seconds += span.time.as_secs_f64();
        }
    }
    let reports = session.plans().enumerate().flat_map(|(plan, of)| {
        of.report().steps.iter().enumerate().map(move |(step, report)| ((plan, step), report))
    });
    let step = |(at, report)| {
        let (calls, seconds) = ran.get(&at).copied().unwrap_or_default();
        RanStep { report, calls, seconds }
    };
    reports.map(step).collect()
}

/// The middle one of several numbers; 0 of none.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// The resource that bounds a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Arithmetic,
    Bytes,
}

impl Bound {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Bytes => "bytes",
        }
    }
}

/// How long a step would take at the machine's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtLimit {
    pub(crate) seconds: f64,
    pub(crate) bound: Bound,
}

/// The peak rates per second of all threads together.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) f32_operations: f64,
    pub(crate) int8_operations: f64,
    /// `None` if the machine has no such instructions.
    pub(crate) bf16_operations: Option<f64>,
    /// By the bytes that a copy reads and writes, the fewest first: how many of them it does in a second.
    pub(crate) copies: Vec<(f64, f64)>,
}

/// The bytes of the smallest copy, and of the largest: those of a step beyond are copied no slower.
const LEAST_COPY: usize = 1 << 14;
const LARGEST_COPY: usize = 1 << 28;
/// By how much copies grow.
const GROWTH: usize = 4;
/// Steps of a peak: some 20 microseconds.
const STEPS: usize = 4096;
/// How long a limit is measured.
const SAMPLE: Duration = Duration::from_millis(4);
/// The least times that it is, as the best counts.
const TIMES: usize = 3;

impl Limits {
    /// Measures on so many threads at once what `steps` may be bound by.
    pub(crate) fn measure(threads: NonZero<usize>, steps: &[RanStep<'_>]) -> Self {
        let most = steps.iter().map(|step| step.report.bytes).max().unwrap_or(0);
        let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(LEAST_COPY, LARGEST_COPY);
        let sizes = std::iter::successors(Some(LEAST_COPY), |bytes| Some(bytes * GROWTH));
        let sizes = sizes.take_while(|&bytes| bytes < most).chain([most]);
        Self {
            f32_operations: peak(threads, peak_flops),
            int8_operations: peak(threads, peak_ops8),
            bf16_operations: peak_bf16(1)
                .map(|_| peak(threads, |steps| peak_bf16(steps).unwrap_or(0.0))),
            copies: sizes.map(|bytes| copy(threads, bytes)).collect(),
        }
    }

    /// How long all calls of a step would take.
    pub(crate) fn bound(&self, step: &RanStep<'_>) -> AtLimit {
        let StepReport { operations, arithmetic, bytes, .. } = *step.report;
        let per_second = match arithmetic {
            Arithmetic::F32 => self.f32_operations,
            // A vector has half as many.
            Arithmetic::F64 => self.f32_operations / 2.0,
            Arithmetic::Int8 => self.int8_operations,
            Arithmetic::Bf16 => self.bf16_operations.unwrap_or(self.f32_operations),
        };
        let (operations, bytes) = (real(operations), real(bytes));
        let (computing, moving) = (operations / per_second, bytes / self.bytes_per_second(bytes));
        let bound = if computing > moving { Bound::Arithmetic } else { Bound::Bytes };
        AtLimit { seconds: computing.max(moving) * step.calls, bound }
    }

    /// How fast so many bytes are copied: between sizes that were measured, in proportion to the logarithm.
    fn bytes_per_second(&self, bytes: f64) -> f64 {
        let above = self.copies.partition_point(|(size, _)| *size < bytes);
        let copy = |at: usize| self.copies.get(at).copied();
        match (above.checked_sub(1).and_then(copy), copy(above)) {
            (Some((smaller, first)), Some((larger, second))) => {
                first + (second - first) * (bytes / smaller).ln() / (larger / smaller).ln()
            }
            (Some((_, only)), None) | (None, Some((_, only))) => only,
            (None, None) => f64::INFINITY,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count that is divided by seconds")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// Operations in a second.
fn peak(threads: NonZero<usize>, peak: fn(usize) -> f64) -> f64 {
    together(threads, || move || peak(black_box(STEPS)))
}

/// A copy that reads and writes so many bytes, and how many it does in a second.
fn copy(threads: NonZero<usize>, bytes: usize) -> (f64, f64) {
    let len = (bytes / 8 / threads).max(1);
    let all = real((len * 8 * threads.get()) as u64);
    let speed = together(threads, || {
        let (from, mut to) = (vec![1.0f32; len], vec![0.0f32; len]);
        move || {
            black_box(&mut to).copy_from_slice(black_box(&from));
            all / real(threads.get() as u64)
        }
    });
    (all, speed)
}

/// Measures the rate of `work` per second on all threads at once. Each thread creates its own closure, whose calls
/// return the amount of work done.
fn together<W: FnMut() -> f64>(threads: NonZero<usize>, work: impl Fn() -> W + Sync) -> f64 {
    let barrier = Barrier::new(threads.get());
    let one = || {
        let mut work = work();
        // The first call touches its memory.
        work();
        barrier.wait();
        let (mut best, start): (f64, _) = (0.0, Instant::now());
        for round in 1.. {
            let from = Instant::now();
            let mut done = 0.0;
            // A clock is read some twenty times as slowly as the smallest copy is made.
            while from.elapsed() < SAMPLE / 40 {
                done += work();
            }
            best = best.max(done / from.elapsed().as_secs_f64());
            if round >= TIMES && start.elapsed() > SAMPLE {
                break;
            }
        }
        best
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(one)).collect();
        let own = one();
        // A thread that panics has said so, and does nothing.
        others.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum::<f64>() + own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(operations: u64, arithmetic: Arithmetic, bytes: u64) -> StepReport {
        StepReport {
            subnet: None,
            name: String::new(),
            between: None,
            op: String::new(),
            package: String::new(),
            core: udo_api::Core::CPU,
            inputs: Vec::new(),
            outputs: Vec::new(),
            in_place: Vec::new(),
            scratch_bytes: 0,
            bytes,
            operations,
            arithmetic,
            method: String::new(),
            depth: 0,
        }
    }

    #[test]
    fn a_step_takes_as_long_as_what_binds_it() {
        let limits = Limits {
            f32_operations: 100.0,
            int8_operations: 400.0,
            bf16_operations: Some(200.0),
            copies: vec![(10.0, 50.0), (1000.0, 10.0)],
        };
        let cases = [
            (200, Arithmetic::F32, 10, 2.0, Bound::Arithmetic),
            (200, Arithmetic::F64, 10, 4.0, Bound::Arithmetic),
            (200, Arithmetic::Int8, 10, 0.5, Bound::Arithmetic),
            (200, Arithmetic::Bf16, 10, 1.0, Bound::Arithmetic),
            (0, Arithmetic::F32, 5, 0.1, Bound::Bytes),
            (0, Arithmetic::F32, 100, 100.0 / 30.0, Bound::Bytes),
            (0, Arithmetic::F32, 2000, 200.0, Bound::Bytes),
        ];
        for (operations, arithmetic, bytes, seconds, bound) in cases {
            let report = step(operations, arithmetic, bytes);
            let found = limits.bound(&RanStep { report: &report, calls: 1.0, seconds: 9.0 });
            assert!((found.seconds - seconds).abs() < 1e-9 && found.bound == bound, "{found:?}");
            let trips = limits.bound(&RanStep { report: &report, calls: 3.0, seconds: 9.0 });
            assert!((trips.seconds - 3.0 * seconds).abs() < 1e-9);
        }
    }

    #[test]
    fn limits_are_measured_up_to_the_largest_step() {
        let report = step(1, Arithmetic::F32, 1 << 20);
        let steps = [RanStep { report: &report, calls: 1.0, seconds: 1.0 }];
        for threads in [1, 2] {
            let limits = Limits::measure(NonZero::new(threads).unwrap(), &steps);
            let sizes: Vec<f64> = limits.copies.iter().map(|(bytes, _)| *bytes).collect();
            assert_eq!(sizes, [14, 16, 18, 20].map(|bits| f64::from(1 << bits)));
            assert!(limits.copies.iter().all(|(_, speed)| *speed > 0.0), "{limits:?}");
            assert!(limits.f32_operations > 0.0 && limits.int8_operations > 0.0, "{limits:?}");
        }
    }
}
