//! Times closures and prints them as fractions of a limit that is sampled in between.
//!
//! The clock of a core follows its power draw: under matrix products it can be a tenth lower than under multiply-adds
//! in registers, and it recovers a millisecond or two after the last product. So each sample is followed by a short
//! sample of its limit, at the same clock.

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;

use udo_api::Element;
use udo_graph::memory::{Buffer, elements_mut};
use udo_simd::{peak_flops, peak_ops8};

/// The unit of a row, and the limit to compare with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Floating-point operations, compared with multiply-adds in registers.
    Flops,
    /// Operations on 8-bit values, compared with products in registers.
    Ops8,
    /// Bytes read and written, compared with a copy of as many.
    Bytes,
}

/// The results of the summary line.
#[derive(Default)]
pub(crate) struct Summary(Vec<(String, f64)>);

/// The fewest rounds of samples, and the fewest seconds for all of them.
const ROUNDS: usize = 7;
const SECONDS: f64 = 0.4;
/// Seconds per sample of the measured function, and per sample of its limit.
const SAMPLE: f64 = 0.004;
const LIMIT_SAMPLE: f64 = 0.001;
/// The fewest calls per sample, so that long calls also have a best of several.
const TIMES: usize = 3;
/// Steps of a peak measurement: about 20 microseconds.
const STEPS: usize = 4096;

impl Summary {
    /// Adds a result.
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), value));
    }

    /// Prints the summary line.
    pub(crate) fn print(self) {
        let results: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={value:.2}")).collect();
        println!("\nsummary: {}", results.join(" "));
    }
}

/// Prints a heading.
pub(crate) fn section(title: &str) {
    println!("\n{title}");
}

/// Times `body`, which does `work` units, and prints a row. Returns the fraction of the limit.
pub(crate) fn row(name: &str, unit: Unit, work: f64, mut body: impl FnMut()) -> f64 {
    let mut limited = |limit: &mut dyn FnMut(), limit_work: f64| {
        let (seconds, [times]) = samples(&mut body, [(limit, LIMIT_SAMPLE)]);
        (seconds, work / limit_work * times)
    };
    let mut peak = |peak: fn(usize) -> f64| {
        limited(&mut || _ = black_box(peak(black_box(STEPS))), peak(STEPS))
    };
    let (seconds, fraction) = match unit {
        Unit::Flops => peak(peak_flops),
        Unit::Ops8 => peak(peak_ops8),
        Unit::Bytes => {
            #[expect(clippy::cast_sign_loss, reason = "a size in memory")]
            let len = (work as usize / 8).max(16);
            let (source, mut target) = (vec![1.0f32; len], vec![0.0f32; len]);
            let mut copy = || black_box(&mut target).copy_from_slice(black_box(&source));
            limited(&mut copy, (len * 8) as f64)
        }
    };
    let label = match unit {
        Unit::Flops => "GFLOP/s",
        Unit::Ops8 => "GOP/s",
        Unit::Bytes => "GB/s",
    };
    println!("  {name:<44} {:>9.1} {label:<8} {:>5.1} %", work / seconds / 1e9, fraction * 100.0);
    fraction
}

/// Times `body`, which reads and writes `bytes` and does `ops` operations. Prints its fraction of a copy of as many
/// bytes, and of the binding limit, which it returns. `place` names where the data is.
pub(crate) fn bound(
    name: &str,
    place: &str,
    bytes: f64,
    (unit, ops): (Unit, f64),
    mut body: impl FnMut(),
) -> f64 {
    #[expect(clippy::cast_sign_loss, reason = "a size in memory")]
    let len = (bytes as usize / 8).max(16);
    let (mut source, mut target) = (Lines::new(len), Lines::new(len));
    let (source, target) = (source.slice(), target.slice());
    source.fill(1.0f32);
    let mut copy = || black_box(&mut *target).copy_from_slice(black_box(&*source));
    let peak = if matches!(unit, Unit::Ops8) { peak_ops8 } else { peak_flops };
    let needed = ops / peak(STEPS);
    let mut compute = || _ = black_box(peak(black_box(STEPS)));
    let limits: [(&mut dyn FnMut(), f64); 2] =
        [(&mut copy, LIMIT_SAMPLE), (&mut compute, LIMIT_SAMPLE)];
    let (best, [memory, arithmetic]) = samples(&mut body, limits);
    let arithmetic = arithmetic * needed;
    let (fraction, limit) =
        if arithmetic > memory { (arithmetic, "arithmetic") } else { (memory, place) };
    println!(
        "  {name:<30} {place:<8} {:>7.1} GB/s {:>6.1} % of a copy {:>6.1} % of {limit}",
        bytes / best / 1e9,
        memory * 100.0,
        fraction * 100.0
    );
    fraction
}

/// Prints and returns the speed of `body` relative to `other`.
pub(crate) fn ratio(name: &str, body: impl FnMut(), other: impl FnMut()) -> f64 {
    let ratio = times(body, other);
    println!("  {name:<44} {ratio:>9.2} x");
    ratio
}

/// Returns the speed of `body` relative to `other`.
pub(crate) fn times(mut body: impl FnMut(), mut other: impl FnMut()) -> f64 {
    let (_, [times]) = samples(&mut body, [(&mut other, SAMPLE)]);
    times
}

/// Returns the best time of a call of `body` in seconds, and the time of each limit relative to it. Each limit is
/// sampled after `body`; the ratios are medians, because clock and neighbours vary.
fn samples<const N: usize>(
    body: &mut dyn FnMut(),
    mut limits: [(&mut dyn FnMut(), f64); N],
) -> (f64, [f64; N]) {
    let mut best = f64::INFINITY;
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    let start = Instant::now();
    for round in 0.. {
        if round >= ROUNDS && start.elapsed().as_secs_f64() > SECONDS {
            break;
        }
        for ((limit, seconds), times) in limits.iter_mut().zip(&mut times) {
            let body_seconds = sample(body, SAMPLE);
            times.push(sample(limit, *seconds) / body_seconds);
            best = best.min(body_seconds);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (best, times.map(median))
}

/// Returns the seconds of one call: the best of a sample of this length, since noise only adds time.
fn sample(body: &mut dyn FnMut(), seconds: f64) -> f64 {
    body();
    let (mut best, mut calls) = (f64::INFINITY, 1u32);
    let start = Instant::now();
    for measurements in 1.. {
        let call_start = Instant::now();
        for _ in 0..calls {
            body();
        }
        let elapsed = call_start.elapsed().as_secs_f64();
        best = best.min(elapsed / f64::from(calls));
        if measurements >= TIMES && start.elapsed().as_secs_f64() > seconds {
            break;
        }
        if elapsed < 1e-4 {
            calls *= 2;
        }
    }
    best
}

/// Returns the geometric mean.
pub(crate) fn geomean(fractions: &[f64]) -> f64 {
    (fractions.iter().map(|s| s.ln()).sum::<f64>() / fractions.len().max(1) as f64).exp()
}

/// Values in memory that is aligned to cache lines, like the engine's tensors.
pub(crate) struct Lines<T> {
    memory: Buffer,
    values: PhantomData<T>,
}

impl<T: Element> Lines<T> {
    #[expect(clippy::expect_used, reason = "a benchmark that cannot go on stops")]
    /// Allocates `len` zeros.
    pub(crate) fn new(len: usize) -> Self {
        let memory = Buffer::zeroed(len * size_of::<T>()).expect("a benchmark has its memory");
        Self { memory, values: PhantomData }
    }

    /// Returns the values.
    pub(crate) fn slice(&mut self) -> &mut [T] {
        elements_mut(self.memory.bytes_mut()).unwrap_or_default()
    }
}
