//! The inputs of a run, of the files of one line of a list, or of as many as fill the model's batch.

use udo_api::{DType, Shape};
use udo_runtime::Tensor;

use super::RunModel;
use crate::batches;
use crate::input_list::Feeds;
use crate::output::{Failure, note};
use crate::raw::Packing;
use crate::stages::{Ready, Shapes};
use crate::tensors::{self, RawInput, Set};

/// The lines of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// How many there are.
    pub(super) lines: usize,
    /// How many fill the batch.
    pub(super) parts: usize,
}

/// The inputs of a run, and the lines that they come from.
pub(super) struct Filled {
    pub(super) inputs: Set,
    pub(super) of: Lines,
}

/// Returns the shapes of the files of the first line. Raw files do not specify a shape.
pub(super) fn shapes(rest: &[(usize, Feeds)]) -> Result<Shapes, Failure> {
    let feeds = rest.first().map_or(&[][..], |(_, feeds)| feeds);
    let of = feeds
        .iter()
        .filter(|(_, file)| tensors::says_shape(file))
        .map(|(name, file)| Ok((name.clone(), tensors::read(file)?.dims().to_vec())));
    of.collect()
}

impl RunModel {
    /// The inputs of a run over the first of these lines, and of as many more as fill the batch.
    pub(super) fn fill(
        &self,
        ready: &mut Ready,
        rest: &[(usize, Feeds)],
        outputs: &[String],
    ) -> Result<Filled, Failure> {
        let mut sets: Vec<Set> = Vec::new();
        let (mut parts, mut is_joined) = (1, false);
        for (number, feeds) in rest {
            let here = |failure| self.at(*number, failure);
            let set = self.read(ready, feeds).map_err(here)?;
            let model = &ready.loaded.model;
            match sets.first() {
                None if self.input_list.is_some() => {
                    let found = batches::lines_per_run(model.inputs(), &set).map_err(here)?;
                    (parts, is_joined) = (found.unwrap_or(1), found.is_some());
                    batches::check_outputs(model.plan(), outputs, parts).map_err(here)?;
                }
                None => {}
                Some(first) => {
                    batches::check_alike(model.inputs(), first, &set).map_err(here)?;
                }
            }
            sets.push(set);
            if sets.len() == parts {
                break;
            }
        }
        let lines = sets.len();
        let of = Lines { lines, parts };
        if !is_joined {
            return Ok(Filled { inputs: sets.pop().unwrap_or_default(), of });
        }
        if lines < parts {
            note(format!(
                "applying padding: the last run needs {parts} lines but only {lines} remain; the rest of the batch is zeros, and \
                 its results are dropped"
            ));
        }
        Ok(Filled { inputs: batches::join(ready.loaded.model.inputs(), &sets)?, of })
    }

    /// The tensors of one line, in the order of the model's inputs; every input must have one.
    fn read(&self, ready: &mut Ready, feeds: &Feeds) -> Result<Set, Failure> {
        let Ready { session, loaded, .. } = ready;
        let inputs = loaded.model.inputs();
        let mut given = vec![None; inputs.len()];
        for (name, file) in feeds {
            let at = inputs.iter().position(|input| input.name == *name);
            let Some((at, input)) = at.and_then(|at| Some((at, inputs.get(at)?))) else {
                // One that the model does not have is refused by name, whatever its file holds.
                session.set_input(name, &Tensor::zeros(DType::U8, Shape::SCALAR)?)?;
                continue;
            };
            let (packing, encoding) =
                (Packing::native_if(self.native_input), loaded.model.input_encoding(at));
            let tensor = tensors::read_input(file, input, RawInput { packing, encoding })?;
            if let Some(given) = given.get_mut(at) {
                *given = Some(loaded.fitting(input, tensor));
            }
        }
        let missing = inputs.iter().zip(&given).filter(|(_, given)| given.is_none());
        let missing: Vec<String> =
            missing.map(|(input, _)| format!("{} ({})", input.name, input.of)).collect();
        if missing.is_empty() {
            return Ok(given.into_iter().flatten().collect());
        }
        let help = match &self.input_list {
            Some(_) => "name a file for each input in the line, as x:=x0.raw mask:=m0.raw",
            None => "give one with --input NAME=FILE",
        };
        Err(Failure::usage(format!("no tensor for {}", missing.join(", "))).help(help))
    }
}
