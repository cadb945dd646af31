//! Runs in flight: how many end in a second, and how long each takes from its submission.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use clap::Args;
use serde_json::Value;
use udo_api::guard::heap_calls;
use udo_runtime::run::{Launch, RunOptions, Stream};
use udo_runtime::Session;
use udo_runtime::session::SessionOptions;

use super::Latency;
use crate::heaps;
use crate::loaded::Loaded;
use crate::output::{Failure, progress};
use crate::queues::QueueTrace;
use crate::tensors::Set;

/// How runs are submitted.
#[derive(Args, Debug)]
pub(crate) struct FlightFlags {
    /// Number of runs to keep in flight
    ///
    /// Submits runs instead of waiting for each one. Each run in flight has its own memory. Times are then measured
    /// from submission to completion.
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<NonZero<usize>>,
    /// Number of streams that submitted runs alternate between
    ///
    /// Runs in the same stream are executed one after the other.
    #[arg(long, value_name = "N", requires = "in_flight")]
    pub(crate) streams: Option<NonZero<usize>>,
    /// Write a trace of submitted runs to this file
    ///
    /// The trace shows when each run waited and which device executed it. Open it in Chrome's tracing page or in
    /// Perfetto.
    #[arg(long, value_name = "FILE", requires = "in_flight")]
    pub(crate) trace: Option<PathBuf>,
}

/// What runs in flight took.
pub(super) struct Flown {
    pub(super) latency: Latency,
    pub(super) runs_per_second: f64,
    pub(super) heap_per_run: f64,
    /// What is taken of devices' memories.
    pub(super) devices: Value,
}

/// A launch, and where the ends of its runs are told.
struct Flight {
    launch: Launch,
    ends: Receiver<Instant>,
}

/// Streams to submit to in turn; none where runs have no order.
pub(crate) fn streams(count: Option<NonZero<usize>>) -> Vec<Option<Stream>> {
    match count {
        Some(count) => (0..count.get()).map(|_| Some(Stream::new())).collect(),
        None => vec![None],
    }
}

impl FlightFlags {
    /// Keeps `frames` runs in flight until `iterations` have ended, after as many as the warm-up has. All are in `trace`.
    pub(super) fn fly(
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
            latency: Latency::of(&times),
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
