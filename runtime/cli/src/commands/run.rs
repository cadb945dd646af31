//! `udo run`

mod beside;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::memory::Tensor;
use udo_runtime::model::{Session, SessionOptions};
use udo_runtime::session::SpanKind;

use super::Run;
use crate::heaps;
use crate::input_list::{self as list, Feeds, List};
use crate::layers;
use crate::loaded::{Loaded, prepare, run_and_say};
use crate::model_flags::ModelFlags;
use crate::output::{Failure, Outcome, print_json, progress};
use crate::queues::QueueTrace;
use crate::stages::{Ready, Shapes, Stages};
use crate::tensors;
use crate::trace::TraceFile;

/// Run a model
///
/// Inputs come from .npy, .pb (ONNX TensorProto) or .raw files. Outputs are summed up on the
/// screen, and written as .npy files where --output-dir is given. --json says as well what is
/// taken of each device's memory, now and at most, and by whom.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  udo run model.onnx --input x=x.npy
  udo run model.onnx --package SoftmaxUdoPackage --cores dsp,cpu --input x=x.npy --output-dir out
  udo run model.onnx --input-list files.txt --output-dir out     one line per run: x:=x0.raw mask:=m0.raw
  udo run model.onnx --input-list files.txt --async 4             four runs in flight")]
pub(crate) struct RunModel {
    #[command(flatten)]
    model: ModelFlags,
    /// An input's tensor
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parse_input)]
    inputs: Vec<(String, PathBuf)>,
    /// A file with one run per line: NAME:=FILE items, or files in the order of the inputs. A first line #NAME .. says
    /// which outputs are wanted
    #[arg(long, value_name = "FILE", conflicts_with = "inputs")]
    input_list: Option<PathBuf>,
    /// Where outputs go; each run of a list gets a numbered folder in it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Where a trace of the runs goes: which thread was at which step when, for Chrome's tracing page or Perfetto
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The values to give, the model's outputs or others
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    set_output_tensors: Vec<String>,
    /// Give what each node makes as well
    #[arg(long, conflicts_with = "set_output_tensors")]
    debug: bool,
    /// Submit runs, and keep as many in flight, each in memory of its own; results come in the order of the list
    #[arg(long = "async", value_name = "N", conflicts_with = "profile")]
    in_flight: Option<NonZero<usize>>,
    /// Submit them to as many streams in turn; the runs of a stream go one after the other
    #[arg(long, value_name = "K", requires = "in_flight")]
    streams: Option<NonZero<usize>>,
    /// Where a trace of submitted runs goes: when each waited and which device was at it, for Chrome's tracing page or Perfetto
    #[arg(long, value_name = "FILE", requires = "in_flight")]
    trace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_input(text: &str) -> Result<(String, PathBuf), String> {
    let pair = text.split_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    pair.map(|(name, file)| (name.to_owned(), file.into()))
        .ok_or_else(|| "wanted NAME=FILE".to_owned())
}

impl Run for RunModel {
    fn run(mut self) -> Outcome {
        self.model.more_outputs = self.more_outputs()?;
        let frames = self.in_flight.unwrap_or(NonZero::<usize>::MIN);
        let trace = QueueTrace::new(self.trace.as_deref(), &self.model.model)?;
        let log = trace.as_ref().map(QueueTrace::log);
        let options = SessionOptions { frames, log, ..SessionOptions::default() };
        let mut stages = Stages::new(&self.model)?.with_options(options);
        let (inputs, all) = stages.ports()?;
        let List { outputs, runs } = match &self.input_list {
            Some(path) => list::read(path, &inputs, &all)?,
            None => List { outputs: Vec::new(), runs: vec![(0, self.inputs.clone())] },
        };
        let outputs = match (outputs.is_empty(), self.set_output_tensors.is_empty()) {
            (false, false) => {
                let text = "both the list's first line and --set-output-tensors say which outputs are wanted";
                return Err(Failure::usage(text).help("leave one of them out"));
            }
            (false, true) => &outputs,
            (true, false) => &self.set_output_tensors,
            (true, true) => &all,
        };
        let results = match self.in_flight {
            Some(frames) => self.beside(&mut stages, &runs, outputs, frames)?,
            None => self.in_turn(&mut stages, &runs, outputs)?,
        };
        trace.map_or(Ok(()), QueueTrace::write)?;
        if self.json {
            let mut report =
                json!({ "runs": results, "devices": heaps::to_json(stages.runtime()) });
            if let (Some(cache), Some(of)) = (stages.cache(), report.as_object_mut()) {
                of.insert("cache".to_owned(), cache);
            }
            print_json(&report);
        } else {
            heaps::say(stages.runtime());
        }
        Ok(())
    }
}

impl RunModel {
    /// The values to give besides the model's outputs.
    fn more_outputs(&self) -> Result<Vec<String>, Failure> {
        if !self.debug {
            return Ok(self.set_output_tensors.clone());
        }
        let loaded = self.model.load_with_shapes()?;
        let layers = layers::named(loaded.model.report(), &loaded.runtime, &self.model.model);
        Ok(layers.into_iter().map(|layer| layer.value).collect())
    }

    /// One run after the other.
    fn in_turn(
        &self,
        stages: &mut Stages<'_>,
        runs: &[(usize, Feeds)],
        outputs: &[String],
    ) -> Result<Vec<Value>, Failure> {
        let mut profile = None;
        let mut results = Vec::new();
        let bar = progress("running", runs.len());
        for (index, (line, feeds)) in runs.iter().enumerate() {
            let session = self.one(stages, feeds, &mut profile);
            let session = session.map_err(|failure| self.at(*line, failure))?;
            let tensor = |name: &str| Ok(session.output_tensor(name)?);
            results.push(self.collect(&tensor, outputs, self.folder(index).as_deref())?);
            bar.advance(1);
        }
        drop(bar);
        profile.map_or(Ok(()), TraceFile::write)?;
        Ok(results)
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

    /// What to do about an input without a file.
    fn help(&self) -> &'static str {
        match &self.input_list {
            Some(_) => "name a file for each input in the line, as x:=x0.raw mask:=m0.raw",
            None => "give one with --input NAME=FILE",
        }
    }

    /// One run over the files of `feeds`.
    fn one<'a>(
        &self,
        stages: &'a mut Stages<'_>,
        feeds: &Feeds,
        profile: &mut Option<TraceFile>,
    ) -> Result<&'a Session, Failure> {
        let Ready { loaded, session, .. } = stages.at(|_| shapes(feeds))?;
        if let (Some(path), None) = (&self.profile, &profile) {
            *profile = Some(TraceFile::new(path, &self.model, loaded)?);
        }
        let inputs = read(session, loaded, feeds, self.help())?;
        for (input, tensor) in loaded.model.inputs().iter().zip(&inputs) {
            session.set_input(&input.name, tensor)?;
        }
        let Some(profile) = profile else {
            prepare(session, loaded)?;
            run_and_say(session, loaded, Session::run)?;
            return Ok(session);
        };
        if !session.is_prepared() {
            profile.trace().time(SpanKind::Prepare, || prepare(session, loaded))?;
        }
        run_and_say(session, loaded, |session| session.run_traced(profile.trace()))?;
        profile.keep(session);
        Ok(session)
    }

    /// What came out of a run, by name.
    fn collect(
        &self,
        tensor: &dyn Fn(&str) -> Result<Tensor, Failure>,
        names: &[String],
        folder: Option<&Path>,
    ) -> Result<Value, Failure> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|e| {
                Failure::new(format!("cannot make folder {}: {e}", folder.display()))
            })?;
        }
        let mut outputs = Vec::new();
        for name in names {
            let tensor = tensor(name)?;
            let summary = Summary::of(&tensor);
            let file = folder.map(|f| f.join(tensors::file_name(name)));
            if let Some(file) = &file {
                tensors::write_npy(file, &tensor)?;
            }
            if !self.json {
                outln!("{name}: {} {summary}", tensor.desc());
            }
            outputs.push(json!({
                "name": name, "type": tensor.dtype().name(), "shape": tensor.dims(),
                "min": summary.min, "max": summary.max, "mean": summary.mean, "file": file,
            }));
        }
        Ok(json!({ "outputs": outputs }))
    }
}

/// The shapes that files say; those with elements alone say none.
fn shapes(feeds: &Feeds) -> Result<Shapes, Failure> {
    let says = |file: &Path| file.extension().is_some_and(|end| end == "npy" || end == "pb");
    let of = feeds
        .iter()
        .filter(|(_, file)| says(file))
        .map(|(name, file)| Ok((name.clone(), tensors::read(file, None)?.dims().to_vec())));
    of.collect()
}

/// The inputs of one run, in the order of the model's, as its files have them; every input must have one, and `help` says how to
/// give it.
fn read(
    session: &mut Session,
    loaded: &Loaded,
    feeds: &Feeds,
    help: &str,
) -> Result<Vec<Tensor>, Failure> {
    let inputs = loaded.model.inputs();
    let mut given = vec![None; inputs.len()];
    for (name, file) in feeds {
        let known = inputs.iter().zip(&mut given).find(|(input, _)| input.name == *name);
        if let Some((input, given)) = known {
            *given = Some(loaded.fitting(input, tensors::read_input(file, input)?));
        } else {
            // One that the model does not have is refused by name, whatever its file holds.
            let any = Tensor::zeros(udo_api::DType::U8, udo_api::Shape::SCALAR)?;
            session.set_input(name, &any)?;
        }
    }
    let missing = inputs.iter().zip(&given).filter(|(_, given)| given.is_none());
    let missing: Vec<String> =
        missing.map(|(input, _)| format!("{} ({})", input.name, input.of)).collect();
    if missing.is_empty() {
        return Ok(given.into_iter().flatten().collect());
    }
    Err(Failure::usage(format!("no tensor for {}", missing.join(", "))).help(help))
}

/// A tensor in a few numbers.
struct Summary {
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    first: Vec<f64>,
    /// Whether there are more than those.
    is_cut: bool,
}

impl Summary {
    fn of(tensor: &Tensor) -> Self {
        let numbers = tensors::numbers(tensor);
        #[expect(clippy::cast_precision_loss, reason = "a mean for the eye")]
        let mean =
            (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
        Self {
            min: numbers.iter().copied().reduce(f64::min),
            max: numbers.iter().copied().reduce(f64::max),
            mean,
            first: numbers.iter().copied().take(5).collect(),
            is_cut: numbers.len() > 5,
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Some(min), Some(max), Some(mean)) = (self.min, self.max, self.mean) else {
            return f.write_str("empty");
        };
        write!(f, "min {} max {} mean {} [", Short(min), Short(max), Short(mean))?;
        for (i, &v) in self.first.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, Short(v))?;
        }
        f.write_str(if self.is_cut { ", ..]" } else { "]" })
    }
}

/// A number in few characters: very large and very small ones with an exponent.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && !(1e-4..1e7).contains(&size) {
            write!(f, "{:.6e}", self.0)
        } else {
            write!(f, "{:.6}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_lists_say_that_they_are_cut() {
        let shape = udo_api::Shape::new(&[2]).unwrap();
        let tensor = Tensor::of::<f32>(shape, &[2.5, 4e30]).unwrap();
        let text = Summary::of(&tensor).to_string();
        assert!(text.starts_with("min 2.500000 max 4.000000e30 mean 2.000000e30 [2.5"), "{text}");
        assert!(!text.contains(".."), "{text}");
        assert!(
            Summary::of(
                &Tensor::zeros(udo_api::DType::I64, udo_api::Shape::new(&[6]).unwrap()).unwrap()
            )
            .is_cut
        );
    }
}
