//! `udo bench`

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use udo_api::guard::heap_calls;
use udo_runtime::Session;
use udo_runtime::run::{Launch, RunOptions, SessionOptions, Stream};

use super::Run;
use super::quantize::DataFlags;
use crate::heaps;
use crate::loaded::{Loaded, prepare, set_inputs};
use crate::model_flags::ModelFlags;
use crate::output::{Failure, Outcome, print_json, progress};
use crate::queues::QueueTrace;
use crate::ranges::{InputSource, RangeFlags};
use crate::raw::Packing;
use crate::roofline::{self, Limits};
use crate::stages::{Stages, caches, load_with_shapes, shapes_of_data};
use crate::tensors::{self, Set};
use crate::trace::{self, TraceFile};

/// Measure a model's latency, throughput and memory
///
/// Reports the times of whole runs in microseconds. Setting the inputs is not timed. Heap
/// allocations during the runs are counted, and the time is compared with a roofline bound (see
/// `udo explain --help`).
///
/// Inputs are pseudo-random. With --data they are recorded ones: the runs cycle through the sets in
/// the folder, and each set runs once before the measurement starts.
///
/// With --json, resident bytes are the memory of the process without mapped files, and `devices`
/// has the current and the peak memory of each device, by owner.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo bench model.onnx --iterations 200 --threads 2 --json
  udo bench model.onnx --in-flight 4               throughput, with four runs in flight
  udo bench model.onnx --data test_data_set_0      recorded inputs, which also set open shapes")]
pub(crate) struct Bench {
    #[command(flatten)]
    model: ModelFlags,
    /// Time N runs
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Run N times before the timed runs
    #[arg(long, value_name = "N", default_value = "10")]
    warmup: u32,
    /// Set the seed of the pseudo-random inputs
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "data")]
    seed: u64,
    /// Read recorded inputs from this folder, as for `udo verify`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write a trace of all steps to this file
    ///
    /// Each set of inputs runs once more for the trace. Its format is that of `udo run --profile`.
    #[arg(long, value_name = "FILE", conflicts_with = "in_flight")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    flight: FlightFlags,
    #[command(flatten)]
    ranges: RangeFlags,
    /// Print one JSON object instead of text
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
    fn from_sorted(sorted: &[f64]) -> Self {
        let at = |share: usize| {
            let last = sorted.len().saturating_sub(1);
            sorted.get((last * share).div_ceil(100)).copied().unwrap_or(0.0)
        };
        Self { min: at(0), median: at(50), p90: at(90), p99: at(99) }
    }
}

/// The measurements of timed runs.
struct Timed {
    latency: Latency,
    heap_per_run: f64,
    replans: usize,
}

impl Bench {
    /// A session that has run once on each set, so that lazily made things of the system are there, and how long it took
    /// from the model's file to the first result.
    fn first(&self, loaded: &Loaded, sets: &[Set]) -> Result<(Session, Duration), Failure> {
        let mut start = Instant::now();
        let mut session = loaded.session(&SessionOptions::default())?;
        let mut first = loaded.load_time + start.elapsed();
        let warmup = (self.warmup as usize).max(sets.len());
        for (turn, set) in sets.iter().cycle().take(warmup).enumerate() {
            set_inputs(&mut session, loaded, set)?;
            start = Instant::now();
            prepare(&mut session, loaded)?;
            session.run().map_err(|error| loaded.run_failure(error))?;
            if turn == 0 {
                first += start.elapsed();
            }
        }
        Ok((session, first))
    }

    /// How long a run would take at the machine's limits, in microseconds; nothing where sets may differ.
    fn roofline(
        &self,
        loaded: &Loaded,
        session: &mut Session,
        sets: &[Set],
    ) -> Result<Option<f64>, Failure> {
        if sets.len() > 1 {
            return Ok(None);
        }
        let mut trace = trace::of_a_run(self.model.threads());
        let run = session.run_traced(&mut trace);
        run.map_err(|error| loaded.run_failure(error))?;
        let steps = roofline::steps(session, &trace);
        let limits = Limits::measure(self.model.threads(), &steps);
        Ok(Some(steps.iter().map(|step| limits.bound(step).seconds).sum::<f64>() * 1e6))
    }

    fn timed(
        &self,
        loaded: &Loaded,
        session: &mut Session,
        sets: &[Set],
    ) -> Result<Timed, Failure> {
        let count = self.iterations as usize;
        let before = session.replans();
        let mut times = Vec::with_capacity(count);
        let mut heap = 0;
        let bar = progress("running", count);
        // The bar is seldom drawn, as the run after that is slower.
        let grain = count.div_ceil(50);
        for (index, set) in (1..=count).zip(sets.iter().cycle()) {
            if sets.len() > 1 {
                set_inputs(session, loaded, set)?;
            }
            let (before, start) = (heap_calls(), Instant::now());
            session.run().map_err(|error| loaded.run_failure(error))?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            heap += heap_calls() - before;
            if index.is_multiple_of(grain) {
                bar.advance(grain);
            }
        }
        drop(bar);
        times.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "a count for the eye")]
        let heap_per_run = heap as f64 / count as f64;
        let replans = session.replans() - before;
        Ok(Timed { latency: Latency::from_sorted(&times), heap_per_run, replans })
    }
}

impl Bench {
    /// Measures runs that are submitted.
    fn fly(&self, loaded: &Loaded, sets: &[Set], frames: NonZero<usize>) -> Outcome {
        let counts = (self.warmup as usize, self.iterations as usize);
        let trace = QueueTrace::new(self.flight.trace.as_deref(), &self.model.model)?;
        let Flown { latency, runs_per_second, heap_per_run, devices } =
            self.flight.fly((loaded, sets), frames, counts, trace)?;
        let Latency { min, median, p90, p99 } = latency;
        let (count, threads, streams) =
            (self.iterations, self.model.threads(), self.flight.streams);
        if self.json {
            print_json(&json!({
                "model": self.model.model, "cores": self.model.core_names(), "threads": threads,
                "iterations": count, "sets": sets.len(), "in_flight": frames, "streams": streams,
                "runs_per_second": runs_per_second, "allocations_per_run": heap_per_run, "devices": devices,
                "latency_us": { "min": min, "median": median, "p90": p90, "p99": p99 },
            }));
            return Ok(());
        }
        let (model, cores) = (self.model.model.display(), self.model.core_names().join(","));
        let unit = if threads.get() == 1 { "thread" } else { "threads" };
        outln!("{model} on {cores}, {threads} {unit}, {count} runs, {frames} in flight");
        outln!("  runs per second: {runs_per_second:.1}   heap calls per run: {heap_per_run}");
        outln!(
            "  us from submission to completion: min {min:.2}  median {median:.2}  p90 {p90:.2}  p99 {p99:.2}"
        );
        Ok(())
    }
}

/// Runs each set once more and notes that.
fn traced(mut profile: TraceFile, loaded: &Loaded, session: &mut Session, sets: &[Set]) -> Outcome {
    for set in sets {
        set_inputs(session, loaded, set)?;
        let run = session.run_traced(profile.trace());
        run.map_err(|error| loaded.run_failure(error))?;
        profile.keep(session);
    }
    profile.write()
}

impl Run for Bench {
    fn run(mut self) -> Outcome {
        let data = DataFlags { calibration: self.data.clone(), ..DataFlags::default() };
        self.ranges.set(&mut self.model, InputSource::Data(data), Packing::Float32);
        let loaded = match self.data {
            Some(_) => {
                Stages::load(&self.model, |names| shapes_of_data(self.data.as_deref(), names))?
            }
            None => load_with_shapes(&self.model)?,
        };
        loaded.look_at(loaded.model.report())?;
        let sets = tensors::input_sets(&loaded.model, self.data.as_deref(), self.seed)?;
        if let Some(frames) = self.flight.in_flight {
            return self.fly(&loaded, &sets, frames);
        }
        let profile = self.profile.as_deref();
        let profile = profile.map(|path| TraceFile::new(path, &self.model, &loaded)).transpose()?;
        let (mut session, first) = self.first(&loaded, &sets)?;
        let Timed { latency, heap_per_run, replans } = self.timed(&loaded, &mut session, &sets)?;
        let [resident, peak] = ["RssAnon:", "VmHWM:"].map(held_bytes);
        let roofline_us = self.roofline(&loaded, &mut session, &sets)?;
        if let Some(profile) = profile {
            traced(profile, &loaded, &mut session, &sets)?;
        }
        let memories = || session.plans().flat_map(|plan| &plan.report().memories);
        let arena: usize = memories().map(|m| m.arena_bytes).sum();
        let live: usize = memories().map(|m| m.live_bytes).sum();
        let weights: usize = memories().map(|m| m.constant_bytes + m.packed_bytes).sum();
        let parts = session.plans().count();
        let [load_ms, first_ms] = [loaded.load_time, first].map(|time| time.as_secs_f64() * 1e3);
        let (count, threads) = (self.iterations, self.model.threads());
        let Latency { min, median, p90, p99 } = latency;
        let cores = self.model.core_names();
        if self.json {
            print_json(&json!({
                "model": self.model.model, "cores": cores, "threads": threads, "iterations": count,
                "sets": sets.len(),
                "latency_us": { "min": min, "median": median, "p90": p90, "p99": p99 },
                "load_ms": load_ms, "first_result_ms": first_ms, "allocations_per_run": heap_per_run,
                "arena_bytes": arena, "live_bytes": live, "weights_bytes": weights,
                "resident_bytes": resident, "peak_rss_bytes": peak, "parts": parts, "replans": replans,
                "cache": caches(std::iter::once(&loaded.model)), "devices": heaps::to_json(&loaded.runtime),
                "roofline_us": roofline_us, "roofline_share": roofline_us.map(|us| us / median),
            }));
            return Ok(());
        }
        let model = self.model.model.display();
        let unit = if threads.get() == 1 { "thread" } else { "threads" };
        outln!("{model} on {}, {threads} {unit}, {count} runs", cores.join(","));
        outln!("  latency us: min {min:.2}  median {median:.2}  p90 {p90:.2}  p99 {p99:.2}");
        outln!(
            "  load ms: {load_ms:.2}   first result ms: {first_ms:.2}   heap calls per run: {heap_per_run}"
        );
        outln!("  arena bytes: {arena} (peak live {live})   weight bytes: {weights}");
        if let Some(us) = roofline_us {
            let share = us / median * 100.0;
            outln!("  roofline bound: {us:.2} us ({share:.1} % of the median)");
        }
        if parts > 1 {
            outln!("  segments: {parts}   compilations during timed runs: {replans}");
        }
        Ok(())
    }
}

/// How much memory the process holds, or ever held, if the system says.
fn held_bytes(what: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(what))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// How runs are submitted.
#[derive(Args, Debug)]
pub(crate) struct FlightFlags {
    /// Keep N runs in flight
    ///
    /// Submits runs without waiting for earlier ones. Each run in flight has its own memory. Times
    /// are then measured from submission to completion.
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<NonZero<usize>>,
    /// Distribute submitted runs over N streams
    ///
    /// Runs in the same stream execute one after the other.
    #[arg(long, value_name = "N", requires = "in_flight")]
    pub(crate) streams: Option<NonZero<usize>>,
    /// Write a trace of submitted runs to this file
    ///
    /// The trace shows how long each run waited, and which device executed it. Chrome's tracing
    /// page and Perfetto open it.
    #[arg(long, value_name = "FILE", requires = "in_flight")]
    pub(crate) trace: Option<PathBuf>,
}

/// The measurements of runs in flight.
struct Flown {
    latency: Latency,
    runs_per_second: f64,
    heap_per_run: f64,
    /// The memory used on devices, as JSON.
    devices: Value,
}

/// A launch, and where the ends of its runs are told.
struct Flight {
    launch: Launch,
    ends: Receiver<Instant>,
}

/// Streams to submit to in turn; none where runs have no order.
pub(crate) fn streams(count: Option<NonZero<usize>>) -> Vec<Option<Stream>> {
    match count {
        Some(count) => (0..count.get()).map(|_| Some(Stream::default())).collect(),
        None => vec![None],
    }
}

impl FlightFlags {
    /// Keeps `frames` runs in flight until `iterations` have ended, after as many as the warm-up has. All are in `trace`.
    fn fly(
        &self,
        (loaded, sets): (&Loaded, &[Set]),
        frames: NonZero<usize>,
        (warmup, iterations): (usize, usize),
        trace: Option<QueueTrace>,
    ) -> Result<Flown, Failure> {
        let options = SessionOptions {
            frames,
            log: trace.as_ref().map(QueueTrace::log),
            ..SessionOptions::default()
        };
        let mut session = loaded.session(&options)?;
        let streams = streams(self.streams);
        let flights = (0..frames.get()).zip(sets.iter().cycle()).zip(streams.iter().cycle());
        let flights =
            flights.map(|((_, set), stream)| flight(&mut session, loaded, set, stream.as_ref()));
        let flights = flights.collect::<Result<Vec<_>, Failure>>()?;
        around(&flights, warmup.max(flights.len()), |_| ())?;
        let mut times = Vec::with_capacity(iterations);
        let (heap, start) = (heap_calls(), Instant::now());
        around(&flights, iterations, |time| times.push(time))?;
        let seconds = start.elapsed().as_secs_f64();
        let heap = heap_calls() - heap;
        trace.map_or(Ok(()), QueueTrace::write)?;
        times.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "counts for the eye")]
        let [count, heap] = [iterations as f64, heap as f64];
        Ok(Flown {
            latency: Latency::from_sorted(&times),
            runs_per_second: count / seconds,
            heap_per_run: heap / count,
            devices: heaps::to_json(&loaded.runtime),
        })
    }
}

fn flight(
    session: &mut Session,
    loaded: &Loaded,
    set: &Set,
    stream: Option<&Stream>,
) -> Result<Flight, Failure> {
    let (said, ends) = channel();
    let fitting = loaded.model.inputs().iter().zip(set.iter());
    let set: Vec<_> = fitting.map(|(input, of)| loaded.fitting(input, of.clone())).collect();
    let outputs = vec![None; loaded.model.outputs().len()];
    let on_done: udo_engine::run::Callback = Box::new(move |_| {
        // Nobody listens where a run before failed.
        let _heard = said.send(Instant::now());
    });
    let options =
        RunOptions { stream: stream.cloned(), on_done: Some(on_done), ..RunOptions::default() };
    let launch = session.record(&loaded.on_device(&set)?, &outputs, options)?;
    Ok(Flight { launch, ends })
}

/// Submits `count` runs, the launches in turn, each as soon as its run before has ended; `took` is told of microseconds.
fn around(flights: &[Flight], count: usize, mut took: impl FnMut(f64)) -> Result<(), Failure> {
    let mut in_flight = Vec::with_capacity(flights.len());
    let bar = progress("running", count);
    let grain = count.div_ceil(50);
    let mut turns = flights.iter().cycle();
    for index in 0..count + flights.len() {
        let Some(flight) = turns.next() else { break };
        if index >= flights.len() && !in_flight.is_empty() {
            let (run, submitted): (udo_runtime::Run, Instant) = in_flight.remove(0);
            run.wait()?;
            if let Ok(end) = flight.ends.recv() {
                took(end.duration_since(submitted).as_secs_f64() * 1e6);
            }
            if index.is_multiple_of(grain) {
                bar.advance(grain);
            }
        }
        if index < count {
            let submitted = Instant::now();
            in_flight.push((flight.launch.submit()?, submitted));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_elements() {
        let times: Vec<f64> = (1..=101).map(f64::from).collect();
        let latency = Latency::from_sorted(&times);
        let found = [latency.min, latency.median, latency.p90, latency.p99].map(f64::to_bits);
        assert_eq!(found, [1.0f64, 51.0, 91.0, 100.0].map(f64::to_bits));
        assert_eq!(Latency::from_sorted(&[5.0]).p99.to_bits(), 5.0f64.to_bits());
    }
}
