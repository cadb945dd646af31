//! `udo run`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use udo_runtime::memory::Tensor;
use udo_runtime::model::{Model, Session};
use udo_runtime::plan::StepReport;
use udo_runtime::session::StepProfile;

use super::Run;
use crate::model_flags::{Loaded, ModelFlags, prepare, run_and_say, say_notices, session};
use crate::output::{Failure, Outcome, print_json};
use crate::tensors;

/// Run a model
///
/// Inputs come from .npy, .pb (ONNX TensorProto) or .raw files. Outputs are summed up on the
/// screen, and written as .npy files where --output-dir is given.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  udo run model.onnx --input x=x.npy
  udo run model.onnx --package SoftmaxUdoPackage --cores dsp,cpu --input x=x.npy --output-dir out
  udo run model.onnx --input-list files.txt --output-dir out     one line per run: x:=x0.raw mask:=m0.raw")]
pub(crate) struct RunModel {
    #[command(flatten)]
    model: ModelFlags,
    /// An input's tensor
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parse_input)]
    inputs: Vec<(String, PathBuf)>,
    /// A file with one run per line: NAME:=FILE items, or files in the order of the inputs
    #[arg(long, value_name = "FILE", conflicts_with = "inputs")]
    input_list: Option<PathBuf>,
    /// Where outputs go; each run of a list gets a numbered folder in it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Where the time of each step goes, as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_input(text: &str) -> Result<(String, PathBuf), String> {
    let pair = text.split_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    pair.map(|(name, file)| (name.to_owned(), file.into()))
        .ok_or_else(|| "wanted NAME=FILE".to_owned())
}

/// The files of one run.
type Feeds = Vec<(String, PathBuf)>;

impl Run for RunModel {
    fn run(self) -> Outcome {
        let loaded = self.model.load()?;
        say_notices(loaded.model.report());
        let runs = self.runs(&loaded)?;
        let mut session = session(&loaded.model, &loaded.registry)?;
        let mut results = Vec::new();
        for (index, feeds) in runs.iter().enumerate() {
            feed(&mut session, &loaded.model, feeds)?;
            prepare(&mut session, &loaded)?;
            let times = profiled(&mut session, &loaded)?;
            let folder = match (&self.output_dir, &self.input_list) {
                (Some(dir), Some(_)) => Some(dir.join(format!("Result_{index}"))),
                (Some(dir), None) => Some(dir.clone()),
                (None, _) => None,
            };
            results.push(self.collect(&session, loaded.model.outputs(), folder.as_deref())?);
            if let Some(path) = &self.profile {
                write_profile(path, &session, &times)?;
            }
        }
        if self.json {
            print_json(&json!({ "runs": results }));
        }
        Ok(())
    }
}

impl RunModel {
    fn runs(&self, loaded: &Loaded) -> Result<Vec<Feeds>, Failure> {
        let Some(list) = &self.input_list else { return Ok(vec![self.inputs.clone()]) };
        let text = std::fs::read_to_string(list)
            .map_err(|e| Failure::new(format!("cannot read input list {}: {e}", list.display())))?;
        let inputs = loaded.model.inputs();
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| {
                parse_line(line, &names)
                    .map_err(|e| Failure::new(format!("{}:{}: {e}", list.display(), number + 1)))
            })
            .collect()
    }

    fn collect(
        &self,
        session: &Session,
        names: &[String],
        folder: Option<&Path>,
    ) -> Result<serde_json::Value, Failure> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|e| {
                Failure::new(format!("cannot make folder {}: {e}", folder.display()))
            })?;
        }
        let mut outputs = Vec::new();
        for name in names {
            let tensor = session.output_tensor(name)?;
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

fn parse_line(line: &str, names: &[&str]) -> Result<Feeds, String> {
    let items: Vec<&str> = line.split_whitespace().collect();
    if items.iter().all(|i| i.contains(":=")) {
        let pairs = items.iter().filter_map(|i| i.split_once(":="));
        return Ok(pairs.map(|(name, file)| (name.to_owned(), file.into())).collect());
    }
    if items.iter().any(|i| i.contains(":=")) {
        return Err("some files are named and some are not, wanted one way".to_owned());
    }
    if items.len() != names.len() {
        return Err(format!(
            "{} files, wanted {} for {}",
            items.len(),
            names.len(),
            names.join(", ")
        ));
    }
    Ok(names.iter().zip(items).map(|(name, file)| ((*name).to_owned(), file.into())).collect())
}

/// Reads the files of one run into the session; every input must have one.
fn feed(session: &mut Session, model: &Model, feeds: &Feeds) -> Result<(), Failure> {
    for (name, file) in feeds {
        let input = model.inputs().iter().find(|input| input.name == *name);
        // An input that the model does not have is refused by name, whatever its file holds.
        let tensor = match input {
            Some(input) => tensors::read_input(file, input)?,
            None => Tensor::zeros(udo_api::DType::U8, udo_api::Shape::SCALAR)?,
        };
        session.set_input(name, &tensor)?;
    }
    let is_fed = |name: &str| feeds.iter().any(|(fed, _)| fed == name);
    let missing = model.inputs().iter().filter(|input| !is_fed(&input.name));
    let missing: Vec<String> =
        missing.map(|input| format!("{} ({})", input.name, input.of)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!("no tensor for {}", missing.join(", ")))
        .help("give one with --input NAME=FILE"))
}

/// Runs the model; what each step took. Where some were planned in the run, they are timed in another one.
fn profiled(session: &mut Session, loaded: &Loaded) -> Result<Vec<StepProfile>, Failure> {
    let mut times = Vec::new();
    loop {
        let steps = steps(session).count();
        if steps <= times.len() {
            return Ok(times);
        }
        times.resize(steps, StepProfile::default());
        run_and_say(session, loaded, |session| session.run_profiled(&mut times))?;
    }
}

/// The steps of the last run.
fn steps(session: &Session) -> impl Iterator<Item = &StepReport> {
    session.plans().flat_map(|plan| &plan.report().steps)
}

fn write_profile(path: &Path, session: &Session, times: &[StepProfile]) -> Result<(), Failure> {
    let steps: Vec<_> = steps(session)
        .zip(times)
        .map(|(step, profile)| {
            json!({
                "name": step.name, "op": step.op, "package": step.package, "core": step.core.to_string(),
                "us": profile.time.as_secs_f64() * 1e6, "heap_calls": profile.heap_calls,
            })
        })
        .collect();
    std::fs::write(path, format!("{:#}\n", json!({ "steps": steps })))
        .map_err(|e| Failure::new(format!("cannot write profile {}: {e}", path.display())))
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

    #[test]
    fn list_lines_are_named_or_positional() {
        let named = parse_line("x:=a.raw y:=b.raw", &["x", "y"]).unwrap();
        assert_eq!(named, parse_line("a.raw b.raw", &["x", "y"]).unwrap());
        assert_eq!(parse_line("a.raw", &["x", "y"]).unwrap_err(), "1 files, wanted 2 for x, y");
        assert!(parse_line("x:=a.raw b.raw", &["x", "y"]).is_err());
        assert_eq!(parse_line("x:=d/a:0#1.raw", &["x"]).unwrap()[0].1, Path::new("d/a:0#1.raw"));
    }
}
