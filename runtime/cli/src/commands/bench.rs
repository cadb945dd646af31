//! `udo bench`

use std::time::Instant;

use clap::Args;
use serde_json::json;
use udo_api::TensorDesc;
use udo_api::guard::heap_calls;

use super::Run;
use crate::model_flags::{ModelFlags, run_failure, say_notices, session};
use crate::output::{Outcome, print_json, progress};
use crate::tensors;

/// Measure how long a model takes, and that it leaves the heap alone
///
/// Inputs are pseudo-random from a seed. Times are of whole runs, in microseconds.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  udo bench model.onnx --iterations 200 --threads 2 --json")]
pub(crate) struct Bench {
    #[command(flatten)]
    model: ModelFlags,
    /// Runs that are timed
    #[arg(long, value_name = "K", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Runs before that
    #[arg(long, value_name = "W", default_value = "10")]
    warmup: u32,
    /// The seed of the inputs
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Percentiles of sorted times in microseconds.
struct Latency {
    min: f64,
    median: f64,
    p90: f64,
    p99: f64,
}

impl Latency {
    fn of(sorted: &[f64]) -> Self {
        let at = |share: usize| {
            let last = sorted.len().saturating_sub(1);
            sorted.get((last * share).div_ceil(100)).copied().unwrap_or(0.0)
        };
        Self { min: at(0), median: at(50), p90: at(90), p99: at(99) }
    }
}

impl Run for Bench {
    fn run(self) -> Outcome {
        let loaded = self.model.load_with_shapes()?;
        say_notices(loaded.model.report());
        let mut session = session(&loaded.model, &loaded.registry)?;
        for (index, input) in loaded.model.inputs().iter().enumerate() {
            let desc = TensorDesc::new(input.of.dtype, input.required()?);
            let tensor = tensors::random(&desc, self.seed.wrapping_add(index as u64))?;
            session.set_input(&input.name, &tensor)?;
        }
        let fail = |error| run_failure(error, &loaded.registry);
        // One run at least, so that lazily made things of the system are there.
        for _ in 0..self.warmup.max(1) {
            session.run().map_err(fail)?;
        }
        let count = self.iterations as usize;
        let warm_replans = session.replans();
        let mut times = Vec::with_capacity(count);
        let mut heap = 0;
        let bar = progress("running", count);
        // The bar is seldom drawn, as the run after that is slower.
        let grain = count.div_ceil(50);
        for index in 1..=count {
            let (before, start) = (heap_calls(), Instant::now());
            session.run().map_err(fail)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            heap += heap_calls() - before;
            if index.is_multiple_of(grain) {
                bar.advance(grain);
            }
        }
        drop(bar);
        times.sort_by(f64::total_cmp);
        let latency = Latency::of(&times);
        let replans = session.replans() - warm_replans;
        let memories = || session.plans().flat_map(|plan| &plan.report().memories);
        let arena: usize = memories().map(|m| m.arena_bytes).sum();
        let weights: usize = memories().map(|m| m.constant_bytes + m.packed_bytes).sum();
        let parts = session.plans().count();
        let load_ms = loaded.load_time.as_secs_f64() * 1e3;
        #[expect(clippy::cast_precision_loss, reason = "a count for the eye")]
        let heap_per_run = heap as f64 / count as f64;
        let cores: Vec<String> = self.model.cores.iter().map(ToString::to_string).collect();
        if self.json {
            print_json(&json!({
                "model": self.model.model, "cores": cores, "threads": self.model.threads, "iterations": count,
                "latency_us": {
                    "min": latency.min, "median": latency.median, "p90": latency.p90, "p99": latency.p99,
                },
                "load_ms": load_ms, "allocations_per_run": heap_per_run, "arena_bytes": arena,
                "weights_bytes": weights, "peak_rss_bytes": peak_rss_bytes(), "parts": parts, "replans": replans,
            }));
            return Ok(());
        }
        outln!(
            "{} on {}, {} threads, {count} runs",
            self.model.model.display(),
            cores.join(","),
            self.model.threads
        );
        outln!(
            "  latency us: min {:.2}  median {:.2}  p90 {:.2}  p99 {:.2}",
            latency.min,
            latency.median,
            latency.p90,
            latency.p99
        );
        outln!("  load ms: {load_ms:.2}   heap calls per run: {heap_per_run}");
        outln!("  arena bytes: {arena}   weights bytes: {weights}");
        if parts > 1 {
            outln!(
                "  parts planned one after the other: {parts}   plans made in timed runs: {replans}"
            );
        }
        Ok(())
    }
}

/// The most memory that the process ever held, if the system says.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_elements() {
        let times: Vec<f64> = (1..=101).map(f64::from).collect();
        let latency = Latency::of(&times);
        let found = [latency.min, latency.median, latency.p90, latency.p99].map(f64::to_bits);
        assert_eq!(found, [1.0f64, 51.0, 91.0, 100.0].map(f64::to_bits));
        assert_eq!(Latency::of(&[5.0]).p99.to_bits(), 5.0f64.to_bits());
    }
}
