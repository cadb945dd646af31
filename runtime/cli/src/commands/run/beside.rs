//! Runs that are submitted, several of them in flight.

use std::collections::VecDeque;
use std::num::NonZero;

use serde_json::Value;
use udo_api::Encoding;
use udo_runtime::Run;
use udo_runtime::run::RunOptions;

use super::fill::{Lines, shapes};
use super::list::Feeds;
use super::{Output, Results, RunModel};
use crate::commands::bench::streams;
use crate::output::{Failure, progress};
use crate::stages::{Ready, Stages};

/// A run whose results are still to come.
struct InFlight {
    /// The place of its first line among all, and the number of that.
    index: usize,
    line: usize,
    lines: Lines,
    run: Run,
    /// The outputs that are wanted, by their places among the model's, and what their integers stand for.
    outputs: Vec<(String, usize, Option<Encoding>)>,
}

impl RunModel {
    /// Submits all runs, `frames` of them at a time, and collects their results in order.
    pub(super) fn beside(
        &self,
        stages: &mut Stages<'_>,
        runs: &[(usize, Feeds)],
        mut results: Results<'_>,
        frames: NonZero<usize>,
    ) -> Result<Vec<Value>, Failure> {
        let streams = streams(self.streams);
        let mut in_flight = VecDeque::with_capacity(frames.get());
        let bar = progress("running", runs.len());
        let wanted = results.outputs;
        let mut collect = |next: InFlight| {
            next.run.wait().map_err(|error| self.at(next.line, error.into()))?;
            let of = next.outputs.into_iter().map(|(name, place, encoding)| {
                let tensor = next.run.output(place)?.to_host()?;
                Ok(Output { name, tensor, encoding })
            });
            let of: Vec<Output> = of.collect::<Result<_, Failure>>()?;
            results.take(&of, next.lines, next.index)?;
            bar.advance(next.lines.lines);
            Ok::<_, Failure>(())
        };
        let (mut at, mut streams) = (0, streams.iter().cycle());
        while let Some(rest @ [_, ..]) = runs.get(at..) {
            if in_flight.len() >= frames.get()
                && let Some(next) = in_flight.pop_front()
            {
                collect(next)?;
            }
            let stream = streams.next().cloned().flatten();
            let options = RunOptions { stream, ..RunOptions::default() };
            match self.submit(stages, rest, wanted, options) {
                Ok(run) => {
                    let lines = run.lines.lines;
                    in_flight.push_back(InFlight { index: at, ..run });
                    at += lines;
                }
                Err(failure) => {
                    // What was submitted before is not lost.
                    in_flight.into_iter().try_for_each(collect)?;
                    return Err(failure);
                }
            }
        }
        in_flight.into_iter().try_for_each(collect)?;
        drop(bar);
        Ok(results.of)
    }

    /// Submits a run over the files of the first of these lines, and of as many more as it takes.
    fn submit(
        &self,
        stages: &mut Stages<'_>,
        rest: &[(usize, Feeds)],
        wanted: &[String],
        options: RunOptions,
    ) -> Result<InFlight, Failure> {
        let line = rest.first().map_or(0, |(line, _)| *line);
        let ready = stages.at(|_| shapes(rest)).map_err(|failure| self.at(line, failure))?;
        let filled = self.fill(ready, rest, wanted)?;
        let Ready { loaded, session, .. } = ready;
        let all = loaded.model.outputs();
        let outputs = wanted.iter().map(|name| {
            let place = all.iter().position(|output| output == name).unwrap_or(usize::MAX);
            (name.clone(), place, loaded.output_encoding(name))
        });
        let outputs = outputs.collect();
        let inputs = loaded.on_device(&filled.inputs)?;
        let run = session.submit(&inputs, &vec![None; all.len()], options);
        let run = run.map_err(|error| self.at(line, error.into()))?;
        Ok(InFlight { index: 0, line, lines: filled.of, run, outputs })
    }
}
