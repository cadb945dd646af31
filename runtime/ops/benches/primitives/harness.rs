//! Times closures, and prints them as shares of a limit.

use std::time::Instant;

/// What a row is measured in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Floating-point operations against the peak of fused multiply-adds.
    Flops,
    /// 8-bit operations against the peak of VNNI, four times that of `Flops`.
    Ops8,
    /// Bytes read and written against the bandwidth of copies as large.
    Bytes,
}

/// Measures, prints and remembers.
pub(crate) struct Harness {
    peak_flops: f64,
    summary: Vec<(String, f64)>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let peak_flops = peak();
        println!("peak of this core, f32: {:.1} GFLOP/s", peak_flops / 1e9);
        Self { peak_flops, summary: Vec::new() }
    }

    /// A heading for the rows that follow.
    pub(crate) fn section(title: &str) {
        println!("\n{title}");
    }

    /// Seconds of one call: the best of many, as noise only ever adds.
    pub(crate) fn seconds(mut body: impl FnMut()) -> f64 {
        body();
        let mut best = f64::INFINITY;
        let start = Instant::now();
        let mut calls = 1u32;
        while start.elapsed().as_secs_f64() < 0.25 {
            let from = Instant::now();
            for _ in 0..calls {
                body();
            }
            let spent = from.elapsed().as_secs_f64();
            best = best.min(spent / f64::from(calls));
            if spent < 2e-4 {
                calls *= 2;
            }
        }
        best
    }

    /// Times `body`, which does `work` units, and prints a row; returns the share of the limit.
    pub(crate) fn row(&self, name: &str, unit: Unit, work: f64, body: impl FnMut()) -> f64 {
        let rate = work / Self::seconds(body);
        let (limit, label) = match unit {
            Unit::Flops => (self.peak_flops, "GFLOP/s"),
            Unit::Ops8 => (self.peak_flops * 4.0, "GOP/s"),
            Unit::Bytes => (copy_bandwidth(work), "GB/s"),
        };
        let share = rate / limit;
        println!("  {name:<44} {:>9.1} {label:<8} {:>5.1} %", rate / 1e9, share * 100.0);
        share
    }

    /// Adds a figure to the summary line.
    pub(crate) fn summarize(&mut self, name: &str, figure: f64) {
        self.summary.push((name.to_owned(), figure));
    }

    pub(crate) fn finish(self) {
        let figures: Vec<String> =
            self.summary.iter().map(|(name, figure)| format!("{name}={figure:.2}")).collect();
        println!("\nsummary: {}", figures.join(" "));
    }
}

/// The geometric mean.
pub(crate) fn geomean(shares: &[f64]) -> f64 {
    (shares.iter().map(|s| s.ln()).sum::<f64>() / shares.len().max(1) as f64).exp()
}

/// Bytes per second that a copy reads and writes, for as many bytes in all.
fn copy_bandwidth(bytes: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in memory")]
    let len = (bytes as usize / 8).max(16);
    let from = vec![1.0f32; len];
    let mut to = vec![0.0f32; len];
    let seconds = Harness::seconds(|| {
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
    });
    (len * 8) as f64 / seconds
}

/// The most multiply-adds per second, times two: independent sums that stay in registers.
fn peak() -> f64 {
    const STEPS: usize = 4096;
    let flops = udo_ops::simd::peak_flops(STEPS);
    flops
        / Harness::seconds(|| {
            std::hint::black_box(udo_ops::simd::peak_flops(std::hint::black_box(STEPS)));
        })
}
