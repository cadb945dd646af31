//! The data that a model is calibrated with: a set of inputs for each run, read when it is wanted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use udo_api::TensorDesc;
use udo_runtime::graph::{DimSpec, Graph, Source};
use udo_runtime::memory::Tensor;
use udo_runtime::resolve::Input;

use super::DataFlags;
use crate::input_list::{self, Feeds};
use crate::output::Failure;
use crate::tensors;

/// The seed of the first random run.
const SEED: u64 = 1;

/// Endings of files with a tensor.
const ENDINGS: [&str; 4] = ["bin", "npy", "pb", "raw"];

/// The inputs of each run.
pub(super) struct Data {
    inputs: Vec<Input>,
    runs: Runs,
}

enum Runs {
    /// The files of each run, and its line in a list.
    List(PathBuf, Vec<(usize, Feeds)>),
    /// Folders with recorded sets.
    Sets(Vec<PathBuf>),
    /// A file for each run.
    Files(Vec<PathBuf>),
    /// As many random ones.
    Random(usize),
}

impl Data {
    /// Finds what the flags say for the inputs of a model.
    pub(super) fn find(
        flags: &DataFlags,
        graph: &Graph,
        shapes: &[(String, Vec<usize>)],
    ) -> Result<Self, Failure> {
        let values = graph.inputs.iter().filter_map(|&id| graph.value(id).ok());
        let inputs = values.filter_map(|value| match &value.source {
            Source::Input(of) => Some(Input { name: value.name.clone(), of: of.clone() }),
            Source::Computed | Source::Constant(_) | Source::Outer => None,
        });
        let mut inputs: Vec<Input> = inputs.collect();
        for (name, dims) in shapes {
            let known = inputs.iter_mut().find(|input| input.name == *name);
            let none = || Failure::usage(format!("the model has no input {name:?}"));
            known.ok_or_else(none)?.of.dims = dims.iter().map(|&n| DimSpec::Fixed(n)).collect();
        }
        let outputs = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
        let outputs: Vec<String> = outputs.map(|value| value.name.clone()).collect();
        let runs = match flags {
            DataFlags { input_list: Some(path), .. } => {
                let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
                Runs::List(path.clone(), input_list::read(path, &names, &outputs)?.runs)
            }
            DataFlags { calibration: Some(folder), .. } => folder_runs(folder, inputs.len())?,
            DataFlags { random, .. } => Runs::Random(random.map_or(1, std::num::NonZero::get)),
        };
        Ok(Self { inputs, runs })
    }

    /// How many runs there are.
    pub(super) fn runs(&self) -> usize {
        match &self.runs {
            Runs::List(_, runs) => runs.len(),
            Runs::Sets(sets) => sets.len(),
            Runs::Files(files) => files.len(),
            Runs::Random(count) => *count,
        }
    }

    /// The inputs of a run, by name.
    pub(super) fn read(&self, run: usize) -> Result<Vec<(String, Tensor)>, Failure> {
        let tensors = self.inputs.iter().enumerate().map(|(at, input)| {
            let tensor = match &self.runs {
                Runs::List(_, runs) => {
                    let feeds = runs.get(run).map_or(&[][..], |(_, feeds)| feeds.as_slice());
                    let file = feeds.iter().find(|(name, _)| *name == input.name);
                    let missing = || Failure::new(format!("no file for input {:?}", input.name));
                    tensors::read_input(&file.ok_or_else(missing)?.1, input)
                }
                Runs::Sets(sets) => {
                    let set = sets.get(run).map_or(Path::new("."), PathBuf::as_path);
                    tensors::read_input(&set.join(format!("input_{at}.pb")), input)
                }
                Runs::Files(files) => {
                    let file = files.get(run).map_or(Path::new("."), PathBuf::as_path);
                    tensors::read_input(file, input)
                }
                Runs::Random(_) => {
                    let desc = TensorDesc::new(input.of.dtype, input.required()?);
                    tensors::random(&desc, SEED + (run * self.inputs.len() + at) as u64)
                }
            };
            Ok((input.name.clone(), tensor?))
        });
        let tensors: Result<_, Failure> = tensors.collect();
        tensors.map_err(|failure| self.at(run, failure))
    }

    /// The shapes of the first run's inputs.
    pub(super) fn shapes(&self) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
        let first = self.read(0)?;
        Ok(first.into_iter().map(|(name, tensor)| (name, tensor.dims().to_vec())).collect())
    }

    /// A failure of a run.
    pub(super) fn at(&self, run: usize, failure: Failure) -> Failure {
        match &self.runs {
            Runs::List(path, runs) => {
                let line = runs.get(run).map_or(0, |(line, _)| *line);
                failure.at(input_list::place(path, line))
            }
            Runs::Sets(folders) | Runs::Files(folders) => match folders.get(run) {
                Some(place) => failure.at(place.display()),
                None => failure,
            },
            Runs::Random(_) => failure,
        }
    }
}

/// The sets that a folder holds, or its files, each for a run of a model with one input.
fn folder_runs(folder: &Path, inputs: usize) -> Result<Runs, Failure> {
    let sets = tensors::sets(folder)?;
    if sets.iter().any(|set| set.join("input_0.pb").exists()) {
        return Ok(Runs::Sets(sets));
    }
    let fail = |e| Failure::new(format!("cannot read folder {}: {e}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let text = format!("folder {} has no recorded inputs", folder.display());
        return Err(Failure::new(text)
            .help("put test_data_set_0 .. with input_0.pb .. in it, or .npy files"));
    }
    if inputs != 1 {
        let text = format!(
            "folder {} has a file for each run, and the model {inputs} inputs",
            folder.display()
        );
        return Err(
            Failure::usage(text).help("say which file is for which input with --input-list")
        );
    }
    Ok(Runs::Files(files))
}
