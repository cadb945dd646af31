//! Runs that are submitted, several of them in flight.

use std::collections::VecDeque;
use std::num::NonZero;

use serde_json::Value;
use udo_runtime::run::{Run, RunOptions};

use super::list::Feeds;
use super::{RunModel, read};
use crate::commands::bench::flight::streams;
use crate::output::{Failure, progress};
use crate::stages::{Ready, Stages};

/// A run whose results are still to come.
struct InFlight {
    index: usize,
    line: usize,
    run: Run,
    /// The names of the model's outputs, in its order.
    outputs: Vec<String>,
}

impl RunModel {
    /// Submits all runs, `frames` of them at a time, and collects their results in order.
    pub(super) fn beside(
        &self,
        stages: &mut Stages<'_>,
        runs: &[(usize, Feeds)],
        outputs: &[String],
        frames: NonZero<usize>,
    ) -> Result<Vec<Value>, Failure> {
        let streams = streams(self.streams);
        let mut in_flight = VecDeque::with_capacity(frames.get());
        let mut results = Vec::with_capacity(runs.len());
        let bar = progress("running", runs.len());
        let mut collect = |next: InFlight| {
            next.run.wait().map_err(|error| self.at(next.line, error.into()))?;
            let tensor = |name: &str| {
                let place = next.outputs.iter().position(|output| output == name);
                Ok(next.run.output(place.unwrap_or(usize::MAX))?.to_host()?)
            };
            results.push(self.collect(&tensor, outputs, self.folder(next.index).as_deref())?);
            bar.advance(1);
            Ok::<_, Failure>(())
        };
        for ((index, (line, feeds)), stream) in runs.iter().enumerate().zip(streams.iter().cycle())
        {
            if in_flight.len() >= frames.get()
                && let Some(next) = in_flight.pop_front()
            {
                collect(next)?;
            }
            let options = RunOptions { stream: stream.clone(), ..RunOptions::default() };
            match self.submit(stages, feeds, options) {
                Ok((run, outputs)) => {
                    in_flight.push_back(InFlight { index, line: *line, run, outputs });
                }
                Err(failure) => {
                    // What was submitted before is not lost.
                    in_flight.into_iter().try_for_each(collect)?;
                    return Err(self.at(*line, failure));
                }
            }
        }
        in_flight.into_iter().try_for_each(collect)?;
        drop(bar);
        Ok(results)
    }

    /// Submits a run over the files of `feeds`: the run, and the names of its outputs.
    fn submit(
        &self,
        stages: &mut Stages<'_>,
        feeds: &Feeds,
        options: RunOptions,
    ) -> Result<(Run, Vec<String>), Failure> {
        let Ready { loaded, session, .. } = stages.at(|_| super::shapes(feeds))?;
        let inputs = read(session, loaded, feeds, self.help())?;
        let outputs = loaded.model.outputs().to_vec();
        let run =
            session.submit(&loaded.on_device(&inputs)?, &vec![None; outputs.len()], options)?;
        Ok((run, outputs))
    }
}
