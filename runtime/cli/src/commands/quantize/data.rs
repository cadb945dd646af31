//! The data that a model is calibrated with: a set of inputs for each run, read when it is wanted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use udo_api::TensorDesc;
use udo_runtime::Tensor;
use udo_runtime::compile::Input;
use udo_runtime::graph::{DimSpec, Graph, Source};

use super::DataFlags;
use crate::batches;
use crate::input_list::{self, Feeds, List};
use crate::output::Failure;
use crate::raw::Packing;
use crate::tensors::{self, RawInput, Recorded, Set};
use udo_compile::resolve::InputShapes;

/// The seed of the first random run.
const SEED: u64 = 1;

/// Endings of files with a tensor.
const ENDINGS: [&str; 4] = ["bin", "npy", "pb", "raw"];

/// The inputs of each run.
pub(crate) struct Data {
    inputs: Vec<Input>,
    packing: Packing,
    runs: Runs,
}

enum Runs {
    /// The files of each line of a list, and how many lines make up a run, where they have to be put together for one.
    List { path: PathBuf, lines: Vec<(usize, Feeds)>, parts: Option<usize> },
    /// Folders with recorded sets.
    Sets(Vec<PathBuf>),
    /// A file for each run.
    Files(Vec<PathBuf>),
    /// As many random ones.
    Random(usize),
}

impl Data {
    /// Finds what the flags say for the inputs of a model.
    pub(crate) fn find(
        flags: &DataFlags,
        packing: Packing,
        graph: &Graph,
        shapes: &[(String, Vec<usize>)],
    ) -> Result<Self, Failure> {
        let inputs = inputs_of(graph, shapes)?;
        let runs = match flags {
            DataFlags { input_list: Some(path), .. } => {
                let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
                let lines = List::read(path)?.runs(&names)?;
                Runs::List { path: path.clone(), lines, parts: None }
            }
            DataFlags { calibration: Some(folder), .. } => folder_runs(folder, inputs.len())?,
            DataFlags { random, .. } => Runs::Random(random.map_or(1, std::num::NonZero::get)),
        };
        let mut data = Self { inputs, packing, runs };
        if matches!(data.runs, Runs::List { .. }) {
            let lines_per_run = |line: Vec<(String, Tensor)>| {
                let tensors: Set = line.into_iter().map(|(_, tensor)| tensor).collect();
                batches::lines_per_run(&data.inputs, &tensors)
            };
            let found = data
                .read(0)
                .and_then(|line| lines_per_run(line).map_err(|failure| data.at(0, failure)))?;
            if let Runs::List { parts, .. } = &mut data.runs {
                *parts = found;
            }
        }
        Ok(data)
    }

    /// The files of one run over a model.
    pub(crate) fn of_feeds(
        feeds: &Feeds,
        packing: Packing,
        graph: &Graph,
        shapes: &[(String, Vec<usize>)],
    ) -> Result<Self, Failure> {
        let lines = vec![(0, feeds.clone())];
        let runs = Runs::List { path: PathBuf::new(), lines, parts: None };
        Ok(Self { inputs: inputs_of(graph, shapes)?, packing, runs })
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> usize {
        match &self.runs {
            Runs::List { lines, parts, .. } => lines.len().div_ceil(parts.unwrap_or(1)),
            Runs::Sets(sets) => sets.len(),
            Runs::Files(files) => files.len(),
            Runs::Random(count) => *count,
        }
    }

    /// The inputs of a run, by name.
    pub(crate) fn read(&self, run: usize) -> Result<Vec<(String, Tensor)>, Failure> {
        let set = match &self.runs {
            Runs::List { lines, parts, .. } => self.of_lines(run, lines, *parts)?,
            Runs::Sets(_) | Runs::Files(_) | Runs::Random(_) => {
                self.set(run).map_err(|failure| self.at(run, failure))?
            }
        };
        Ok(self.inputs.iter().map(|input| input.name.clone()).zip(set).collect())
    }

    /// The inputs of a run of as many lines of a list. Where the last run has fewer, its lines come again: zeros are not like the
    /// data to come.
    fn of_lines(
        &self,
        run: usize,
        lines: &[(usize, Feeds)],
        parts: Option<usize>,
    ) -> Result<Set, Failure> {
        let is_joined = parts.is_some();
        let parts = parts.unwrap_or(1);
        let own = lines.get(run * parts..).unwrap_or_default();
        let own = own.get(..parts).unwrap_or(own);
        let mut sets: Vec<Set> = Vec::with_capacity(parts);
        for (number, feeds) in own.iter().cycle().take(parts) {
            let set = self.of_files(feeds);
            let set = set.and_then(|set| match sets.first() {
                Some(first) => batches::check_alike(&self.inputs, first, &set).map(|()| set),
                None => Ok(set),
            });
            sets.push(set.map_err(|failure| self.at_line(*number, failure))?);
        }
        if is_joined {
            return batches::join(&self.inputs, &sets);
        }
        Ok(sets.pop().unwrap_or_default())
    }

    /// The tensors of one line.
    fn of_files(&self, feeds: &Feeds) -> Result<Set, Failure> {
        let tensors = self.inputs.iter().map(|input| {
            let file = feeds.iter().find(|(name, _)| *name == input.name);
            let missing = || Failure::new(format!("no file for input {:?}", input.name));
            self.of_file(&file.ok_or_else(missing)?.1, input)
        });
        tensors.collect()
    }

    fn of_file(&self, file: &Path, input: &Input) -> Result<Tensor, Failure> {
        tensors::read_input(file, input, RawInput { packing: self.packing, encoding: None })
    }

    /// Returns the inputs of a run that is not a line of a list.
    fn set(&self, run: usize) -> Result<Set, Failure> {
        let tensors = self.inputs.iter().enumerate().map(|(at, input)| match &self.runs {
            Runs::Sets(sets) => {
                let set = sets.get(run).map_or(Path::new("."), PathBuf::as_path);
                self.of_file(&Recorded::input(at).file(set)?, input)
            }
            Runs::Files(files) => {
                self.of_file(files.get(run).map_or(Path::new("."), PathBuf::as_path), input)
            }
            Runs::List { .. } | Runs::Random(_) => {
                let desc = TensorDesc::new(input.of.dtype, input.required()?);
                tensors::random(&desc, SEED + (run * self.inputs.len() + at) as u64)
            }
        });
        tensors.collect()
    }

    /// The shapes of the first run's inputs.
    pub(super) fn shapes(&self) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
        let first = self.read(0)?;
        Ok(first.into_iter().map(|(name, tensor)| (name, tensor.dims().to_vec())).collect())
    }

    /// A failure of a run.
    pub(super) fn at(&self, run: usize, failure: Failure) -> Failure {
        match &self.runs {
            Runs::List { lines, parts, .. } => {
                let line = lines.get(run * parts.unwrap_or(1)).map_or(0, |(line, _)| *line);
                self.at_line(line, failure)
            }
            Runs::Sets(folders) | Runs::Files(folders) => match folders.get(run) {
                Some(place) => failure.at(place.display()),
                None => failure,
            },
            Runs::Random(_) => failure,
        }
    }
}

impl Data {
    /// A failure at a line of the list.
    fn at_line(&self, line: usize, failure: Failure) -> Failure {
        match &self.runs {
            Runs::List { path, .. } => failure.at(input_list::place(path, line)),
            Runs::Sets(_) | Runs::Files(_) | Runs::Random(_) => failure,
        }
    }
}

/// The inputs of a graph, those of them of these shapes whose shapes are given.
fn inputs_of(graph: &Graph, shapes: &[(String, Vec<usize>)]) -> Result<Vec<Input>, Failure> {
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
    Ok(inputs)
}

/// The sets that a folder holds, or its files, each for a run of a model with one input.
fn folder_runs(folder: &Path, inputs: usize) -> Result<Runs, Failure> {
    let sets = tensors::sets(folder)?;
    if sets.iter().any(|set| tensors::is_set(set)) {
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
        return Err(Failure::new(text).help(
            "put test_data_set_0 .. with input_0.pb or input_0.npy .. in it, or .npy files",
        ));
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
