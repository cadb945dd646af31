//! `udo run`

mod beside;
mod capture;
mod fill;
mod profiling;
mod requested_outputs;
mod summary;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use udo_api::Encoding;
use udo_runtime::graph::Graph;
use udo_runtime::run::{RunError, SessionOptions, SpanKind};
use udo_runtime::{Session, Tensor};

use super::Run;
use super::quantize::DataFlags;
use crate::batches;
use crate::heaps;
use crate::input_list::{self as list, Feeds, List};
use crate::loaded::{Loaded, prepare, run_and_say};
use crate::model_flags::{ModelFlags, given_once};
use crate::output::{Failure, Outcome, print_json, progress};
use crate::queues::QueueTrace;
use crate::ranges::{InputSource, RangeFlags};
use crate::raw::Packing;
use crate::stages::{Ready, Stages};
use crate::tensors::TensorFormat;
use crate::trace::TraceFile;
use fill::Lines;
use profiling::{Level, Times};
use summary::Summary;

/// Run a model on input files
///
/// Prints a summary of each output. With --output-dir the outputs are also written to files.
///
/// Input files are .npy, .pb (ONNX TensorProto) or .raw files. A .raw file contains f32 elements
/// and nothing else. If the input is quantized, the elements are quantized by its encoding. With
/// --native-input the file contains elements of the input's own type.
///
/// Each line of --input-list is one run. If its files cover only a part of the model's batch,
/// consecutive lines are combined to fill the batch (docs/net-run.md).
///
/// With --json the report includes the current and the peak memory of each device, by owner.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(after_help = "\
Examples:
  udo run model.onnx --input x=x.npy
  udo run model.onnx --cores dsp,cpu --package MyPackage --input x=x.npy --output-dir out
  udo run model.onnx --input-list files.txt --output-dir out --output-format raw")]
pub(crate) struct RunModel {
    /// Read an input from this file
    ///
    /// FILE is a .npy, .pb or .raw file. May be given once for each input.
    ///
    /// Example: `--input image=cat.npy`
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parse_input)]
    inputs: Vec<(String, PathBuf)>,
    /// Run the model once for each line of this file
    ///
    /// A line lists the input files of a run: as NAME:=FILE, or only files, in the order of the
    /// model's inputs. If the first line is `#NAME ..`, the runs return these outputs or
    /// intermediate values. Empty lines, and lines that start with `#` and a space, are ignored
    /// (docs/net-run.md).
    #[arg(long, value_name = "FILE", conflicts_with = "inputs")]
    input_list: Option<PathBuf>,
    /// Write the outputs to this folder
    ///
    /// With --input-list each run gets a numbered folder in it.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Set the file format
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "npy", requires = "output_dir")]
    output_format: OutputFormat,
    /// Read .raw files in the inputs' own types instead of f32
    #[arg(long)]
    native_input: bool,
    /// Write .raw files in the outputs' own types instead of f32
    ///
    /// Files in .npy format always have the output's own type.
    #[arg(long, requires = "output_dir")]
    native_output: bool,
    /// Return these values instead of the outputs
    ///
    /// A comma-separated list of outputs or intermediate values.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    set_output_tensors: Vec<String>,
    /// Return the outputs of all nodes, in addition to the model's outputs
    #[arg(long, conflicts_with = "set_output_tensors")]
    debug: bool,
    #[command(flatten)]
    model: ModelFlags,
    /// Write a trace of all steps to this file
    ///
    /// The trace shows when each step ran, and on which thread. Chrome's tracing page and Perfetto
    /// open it.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Report times after the results, in this detail
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        default_value = "off",
        conflicts_with = "in_flight"
    )]
    profiling_level: Level,
    /// Keep N runs in flight
    ///
    /// Submits runs without waiting for earlier ones. Each run in flight has its own memory.
    /// Results are reported in the order of the list.
    #[arg(long = "async", value_name = "N", conflicts_with = "profile")]
    in_flight: Option<NonZero<usize>>,
    /// Distribute submitted runs over N streams
    ///
    /// Runs in the same stream execute one after the other.
    #[arg(long, value_name = "N", requires = "in_flight")]
    streams: Option<NonZero<usize>>,
    /// Write a trace of submitted runs to this file
    ///
    /// The trace shows how long each run waited, and which device executed it. Chrome's tracing
    /// page and Perfetto open it.
    #[arg(long, value_name = "FILE", requires = "in_flight")]
    trace: Option<PathBuf>,
    /// Write captures of failing kernel calls to this folder
    ///
    /// A call is captured if it fails, allocates heap memory, ends its process, or returns NaN
    /// although its inputs have no NaN. `udo replay` repeats a captured call.
    #[arg(long, value_name = "DIR", conflicts_with = "in_flight")]
    capture: Option<PathBuf>,
    /// The graph of which nodes are captured
    #[arg(skip)]
    captured: Option<Graph>,
    #[command(flatten)]
    ranges: RangeFlags,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// `--output-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// NumPy file with type, shape and elements
    Npy,
    /// f32 elements and nothing else; quantized outputs are dequantized
    Raw,
}

fn parse_input(text: &str) -> Result<(String, PathBuf), String> {
    let pair = text.split_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    pair.map(|(name, file)| (name.to_owned(), file.into()))
        .ok_or_else(|| "expected NAME=FILE".to_owned())
}

impl Run for RunModel {
    fn run(mut self) -> Outcome {
        given_once("--input", &self.inputs.iter().map(|(name, _)| name).collect::<Vec<_>>())?;
        let list = self.input_list.as_deref().map(List::read).transpose()?;
        self.model.given.extend(self.inputs.iter().map(|(name, _)| name.clone()));
        self.model.given.extend(list.iter().flat_map(List::named).map(str::to_owned));
        let wanted = self.request_outputs(list.as_ref())?;
        if self.capture.is_some() {
            self.captured = self.model.graph()?;
        }
        let data = DataFlags { input_list: self.input_list.clone(), ..DataFlags::default() };
        let given = match self.inputs.as_slice() {
            [] => InputSource::Data(data),
            _ => InputSource::Feeds(&self.inputs),
        };
        self.ranges.set(&mut self.model, given, Packing::native_if(self.native_input));
        let frames = self.in_flight.unwrap_or(NonZero::<usize>::MIN);
        let trace = QueueTrace::new(self.trace.as_deref(), &self.model.model)?;
        let log = trace.as_ref().map(QueueTrace::log);
        let options = SessionOptions { frames, log, ..SessionOptions::default() };
        let mut stages = Stages::new(&self.model)?.with_options(options);
        let (inputs, all) = stages.ports()?;
        let runs = match &list {
            Some(list) => list.runs(&inputs)?,
            None => vec![(0, self.inputs.clone())],
        };
        let outputs = wanted.unwrap_or(all);
        let results = Results::new(&self, &outputs)?;
        let mut times = Times::new(self.profiling_level);
        let results = match self.in_flight {
            Some(frames) => self.beside(&mut stages, &runs, results, frames)?,
            None => self.in_turn(&mut stages, &runs, results, &mut times)?,
        };
        trace.map_or(Ok(()), QueueTrace::write)?;
        let runtime = stages.runtime().clone();
        let mut report = json!({ "runs": results, "devices": heaps::to_json(&runtime) });
        if let Some(cache) = stages.cache() {
            report["cache"] = cache;
        }
        if !self.json {
            heaps::say(&runtime);
        }
        let times = times.conclude(stages);
        if self.json {
            if let Some(times) = times {
                report["profiling"] = times.to_json();
            }
            print_json(&report);
        } else if let Some(times) = times {
            times.say();
        }
        Ok(())
    }
}

impl RunModel {
    /// Returns the format of the output files.
    fn output_format(&self) -> Result<TensorFormat, Failure> {
        match self.output_format {
            OutputFormat::Raw => Ok(TensorFormat::Raw(Packing::native_if(self.native_output))),
            OutputFormat::Npy if self.native_output => Err(Failure::usage(
                "--native-output is of .raw files; .npy files have the outputs' own types",
            )
            .help("add --output-format raw, or leave it out")),
            OutputFormat::Npy => Ok(TensorFormat::Npy),
        }
    }

    /// One run after the other.
    fn in_turn(
        &self,
        stages: &mut Stages<'_>,
        runs: &[(usize, Feeds)],
        mut results: Results<'_>,
        times: &mut Times,
    ) -> Result<Vec<Value>, Failure> {
        let mut profile = None;
        let bar = progress("running", runs.len());
        let mut at = 0;
        while let Some(rest @ [_, ..]) = runs.get(at..) {
            let (filled, ready) = self.one(stages, rest, results.outputs, (&mut profile, times))?;
            let Ready { session, loaded, .. } = ready;
            let of = results.outputs.iter().map(|name| {
                let (name, encoding) = (name.clone(), loaded.output_encoding(name));
                Ok(Output { tensor: session.output_tensor(&name)?, name, encoding })
            });
            let of: Vec<Output> = of.collect::<Result<_, Failure>>()?;
            results.take(&of, filled, at)?;
            at += filled.lines;
            bar.advance(filled.lines);
        }
        drop(bar);
        profile.map_or(Ok(()), TraceFile::write)?;
        Ok(results.of)
    }

    /// Where the outputs of a run go.
    fn folder(&self, index: usize) -> Option<PathBuf> {
        let dir = self.output_dir.as_ref()?;
        Some(match self.input_list {
            Some(_) => dir.join(format!("Result_{index}")),
            None => dir.clone(),
        })
    }

    /// A failure of the run that a line of the list asks for.
    fn at(&self, line: usize, failure: Failure) -> Failure {
        match &self.input_list {
            Some(path) => failure.at(list::place(path, line)),
            None => failure,
        }
    }

    /// One run over the files of the first of these lines, and of as many more as it takes.
    fn one<'a>(
        &self,
        stages: &'a mut Stages<'_>,
        rest: &[(usize, Feeds)],
        outputs: &[String],
        (profile, times): (&mut Option<TraceFile>, &mut Times),
    ) -> Result<(Lines, &'a Ready), Failure> {
        let line = rest.first().map_or(0, |(line, _)| *line);
        let here = |failure| self.at(line, failure);
        let ready = stages.at(|_| fill::shapes(rest)).map_err(here)?;
        let filled = self.fill(ready, rest, outputs)?;
        let Ready { loaded, session, .. } = &mut *ready;
        if let (Some(path), None) = (&self.profile, &profile) {
            *profile = Some(TraceFile::new(path, &self.model, loaded).map_err(here)?);
        }
        self.timed(session, loaded, &filled.inputs, (profile, times)).map_err(here)?;
        Ok((filled.of, ready))
    }

    /// A run over these inputs, noted where that is asked for.
    fn timed(
        &self,
        session: &mut Session,
        loaded: &Loaded,
        inputs: &[Tensor],
        (profile, times): (&mut Option<TraceFile>, &mut Times),
    ) -> Outcome {
        let start = Instant::now();
        for (input, tensor) in loaded.model.inputs().iter().zip(inputs) {
            session.set_input(&input.name, tensor)?;
        }
        let set = start.elapsed();
        let start = Instant::now();
        match profile {
            Some(_) if session.is_prepared() => {}
            Some(profile) => {
                profile.trace().time(SpanKind::Prepare, || prepare(session, loaded))?;
            }
            None => prepare(session, loaded)?,
        }
        times.prepared(start.elapsed());
        let mut own = times.trace(self.model.threads());
        let start = Instant::now();
        let Some(trace) = profile.as_mut().map(TraceFile::trace).or(own.as_mut()) else {
            self.watched(session, loaded, inputs, Session::run)?;
            times.ran(set + start.elapsed());
            return Ok(());
        };
        self.watched(session, loaded, inputs, |session| session.run_traced(trace))?;
        times.ran(set + start.elapsed());
        times.note(session, trace);
        if let Some(profile) = profile {
            profile.keep(session);
        }
        Ok(())
    }
}

impl RunModel {
    /// A run by `run`, of which what goes wrong is captured where that is asked for.
    fn watched(
        &self,
        session: &mut Session,
        loaded: &Loaded,
        inputs: &[Tensor],
        run: impl FnOnce(&mut Session) -> Result<(), RunError>,
    ) -> Outcome {
        let mut failed = None;
        let outcome = run_and_say(session, loaded, |session| {
            run(session).inspect_err(|error| {
                if let RunError::Step(step) = error {
                    failed = Some(step.clone());
                }
            })
        });
        let is_over = outcome.is_ok() || failed.is_some();
        if let (Some(folder), Some(graph), true) = (&self.capture, &self.captured, is_over) {
            let over = capture::Over { graph, loaded, session, inputs, failed: failed.as_ref() };
            over.capture_into(folder);
        }
        outcome
    }
}

/// An output of a run.
struct Output {
    name: String,
    tensor: Tensor,
    /// The encoding of its integers.
    encoding: Option<Encoding>,
}

/// The results of runs, in the order of the list.
struct Results<'a> {
    run: &'a RunModel,
    form: TensorFormat,
    outputs: &'a [String],
    of: Vec<Value>,
}

impl<'a> Results<'a> {
    fn new(run: &'a RunModel, outputs: &'a [String]) -> Result<Self, Failure> {
        let form = run.output_format()?;
        let mut files = BTreeMap::new();
        for name in outputs.iter().filter(|_| run.output_dir.is_some()) {
            let file = form.file_name(name);
            if let Some(other) = files.insert(file.clone(), name).filter(|other| *other != name) {
                let text =
                    format!("outputs {other:?} and {name:?} would both be in the file {file}");
                return Err(
                    Failure::new(text).help("name those that you want with --set-output-tensors")
                );
            }
        }
        Ok(Self { run, form, outputs, of: Vec::new() })
    }

    /// Takes what a run made, over the lines of the list from the one at `at` on.
    fn take(&mut self, outputs: &[Output], filled: Lines, at: usize) -> Outcome {
        for line in 0..filled.lines {
            let folder = self.run.folder(at + line);
            if let Some(folder) = &folder {
                std::fs::create_dir_all(folder).map_err(|e| {
                    Failure::new(format!("cannot make folder {}: {e}", folder.display()))
                })?;
            }
            let of = outputs.iter().map(|output| {
                let cut = || batches::cut(&output.name, &output.tensor, line, filled.parts);
                let tensor = if filled.parts > 1 { cut()? } else { output.tensor.clone() };
                self.collect(
                    &Output { tensor, name: output.name.clone(), ..*output },
                    folder.as_deref(),
                )
            });
            let of: Vec<Value> = of.collect::<Result<_, Failure>>()?;
            self.of.push(json!({ "outputs": of }));
        }
        Ok(())
    }

    /// Says and writes an output of one line.
    fn collect(&self, output: &Output, folder: Option<&Path>) -> Result<Value, Failure> {
        let Output { name, tensor, encoding } = output;
        let summary = Summary::new(tensor);
        let file = folder.map(|folder| folder.join(self.form.file_name(name)));
        if let Some(file) = &file {
            self.form.write(file, tensor, *encoding)?;
        }
        if !self.run.json {
            outln!("{name}: {} {summary}", tensor.desc());
        }
        Ok(json!({
            "name": name, "type": tensor.dtype().name(), "shape": tensor.dims(),
            "min": summary.min, "max": summary.max, "mean": summary.mean,
            "file": file.map(|file| file.to_string_lossy().into_owned()),
        }))
    }
}
