//! Times closures, and prints them as shares of a limit that is measured in turns with them.

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;

use udo_api::Element;
use udo_ops::simd::{peak_flops, peak_ops8};
use udo_runtime::memory::{Buffer, elements_mut};

/// What a row is measured in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Floating-point operations, against multiply-adds that stay in registers.
    Flops,
    /// Operations on 8-bit codes, against products that stay in registers.
    Ops8,
    /// Bytes read and written, against a copy of as many.
    Bytes,
}

/// The figures of the last line.
#[derive(Default)]
pub(crate) struct Summary(Vec<(String, f64)>);

/// Turns that a row and its limit take.
const ROUNDS: usize = 7;
/// Seconds of each turn.
const TURN: f64 = 0.03;
/// Steps of a peak: some 20 microseconds.
const STEPS: usize = 4096;

impl Summary {
    /// Adds a figure.
    pub(crate) fn add(&mut self, name: &str, figure: f64) {
        self.0.push((name.to_owned(), figure));
    }

    pub(crate) fn print(self) {
        let figures: Vec<String> =
            self.0.iter().map(|(name, figure)| format!("{name}={figure:.2}")).collect();
        println!("\nsummary: {}", figures.join(" "));
    }
}

/// A heading for the rows that follow.
pub(crate) fn section(title: &str) {
    println!("\n{title}");
}

/// Times `body`, which does `work` units, and prints a row; returns the share of the limit.
pub(crate) fn row(name: &str, unit: Unit, work: f64, body: impl FnMut()) -> f64 {
    let (seconds, share) = match unit {
        Unit::Flops => against(body, work, peak_flops(STEPS), || {
            black_box(peak_flops(black_box(STEPS)));
        }),
        Unit::Ops8 => against(body, work, peak_ops8(STEPS), || {
            black_box(peak_ops8(black_box(STEPS)));
        }),
        Unit::Bytes => {
            #[expect(clippy::cast_sign_loss, reason = "a size in memory")]
            let len = (work as usize / 8).max(16);
            let (from, mut to) = (vec![1.0f32; len], vec![0.0f32; len]);
            against(body, work, (len * 8) as f64, || {
                black_box(&mut to).copy_from_slice(black_box(&from));
            })
        }
    };
    let label = match unit {
        Unit::Flops => "GFLOP/s",
        Unit::Ops8 => "GOP/s",
        Unit::Bytes => "GB/s",
    };
    println!("  {name:<44} {:>9.1} {label:<8} {:>5.1} %", work / seconds / 1e9, share * 100.0);
    share
}

/// Times `body`, which reads and writes `bytes` and does `ops` operations of a unit; prints its share of
/// a copy of as many bytes, and its share of whichever of the two limits binds, which it returns.
/// `place` is where the bytes lie.
pub(crate) fn bound(
    name: &str,
    place: &str,
    bytes: f64,
    (unit, ops): (Unit, f64),
    mut body: impl FnMut(),
) -> f64 {
    #[expect(clippy::cast_sign_loss, reason = "a size in memory")]
    let len = (bytes as usize / 8).max(16);
    let (mut from, mut to) = (Lines::new(len), Lines::new(len));
    let (from, to) = (from.slice(), to.slice());
    from.fill(1.0f32);
    let mut copy = || black_box(&mut *to).copy_from_slice(black_box(&*from));
    let peak = if matches!(unit, Unit::Ops8) { peak_ops8 } else { peak_flops };
    let needed = ops / peak(STEPS);
    let mut compute = || _ = black_box(peak(black_box(STEPS)));
    let (mut best, mut by_bytes, mut by_ops) = (f64::INFINITY, [0.0; ROUNDS], [0.0; ROUNDS]);
    for (by_bytes, by_ops) in by_bytes.iter_mut().zip(&mut by_ops) {
        let own = turn(&mut body);
        *by_bytes = turn(&mut copy) / own;
        *by_ops = turn(&mut compute) * needed / own;
        best = best.min(own);
    }
    by_bytes.sort_by(f64::total_cmp);
    by_ops.sort_by(f64::total_cmp);
    let (memory, arithmetic) = (by_bytes[ROUNDS / 2], by_ops[ROUNDS / 2]);
    let (share, limit) =
        if arithmetic > memory { (arithmetic, "arithmetic") } else { (memory, place) };
    println!(
        "  {name:<30} {place:<8} {:>7.1} GB/s {:>6.1} % of a copy {:>6.1} % of {limit}",
        bytes / best / 1e9,
        memory * 100.0,
        share * 100.0
    );
    share
}

/// Prints how many times as fast as `other` `body` is, and returns it.
pub(crate) fn ratio(name: &str, body: impl FnMut(), other: impl FnMut()) -> f64 {
    let (_, ratio) = against(body, 1.0, 1.0, other);
    println!("  {name:<44} {ratio:>9.2} x");
    ratio
}

/// The best seconds of `body`, and its rate over that of `limit`: the median over turns, as the clock and
/// the neighbours change from one moment to the next.
fn against(
    mut body: impl FnMut(),
    work: f64,
    limit_work: f64,
    mut limit: impl FnMut(),
) -> (f64, f64) {
    let (mut best, mut shares) = (f64::INFINITY, [0.0; ROUNDS]);
    for share in &mut shares {
        let (own, other) = (turn(&mut body), turn(&mut limit));
        best = best.min(own);
        *share = work / own / (limit_work / other);
    }
    shares.sort_by(f64::total_cmp);
    (best, shares[ROUNDS / 2])
}

/// Seconds of one call: the best of a turn, as noise only ever adds.
fn turn(body: &mut impl FnMut()) -> f64 {
    body();
    let mut best = f64::INFINITY;
    let start = Instant::now();
    let mut calls = 1u32;
    while best.is_infinite() || start.elapsed().as_secs_f64() < TURN {
        let from = Instant::now();
        for _ in 0..calls {
            body();
        }
        let spent = from.elapsed().as_secs_f64();
        best = best.min(spent / f64::from(calls));
        if spent < 1e-4 {
            calls *= 2;
        }
    }
    best
}

/// The geometric mean.
pub(crate) fn geomean(shares: &[f64]) -> f64 {
    (shares.iter().map(|s| s.ln()).sum::<f64>() / shares.len().max(1) as f64).exp()
}

/// Memory for values as the engine's tensors have it.
pub(crate) struct Lines<T> {
    memory: Buffer,
    values: PhantomData<T>,
}

impl<T: Element> Lines<T> {
    pub(crate) fn new(len: usize) -> Self {
        Self { memory: Buffer::zeroed(len * size_of::<T>()), values: PhantomData }
    }

    pub(crate) fn slice(&mut self) -> &mut [T] {
        elements_mut(self.memory.bytes_mut()).unwrap_or_default()
    }
}
