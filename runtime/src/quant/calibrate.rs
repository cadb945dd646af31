//! Runs a float model and records the ranges of its values, in memory that does not grow with the number of runs.

use std::collections::HashMap;

use udo_api::{Bf16, DType, F16};

use super::masks::MaskEnds;
use super::observe::Observer;
use super::range::{Range, to_single};
use super::tail::End;
use super::weights::Along;
use super::{QuantError, Quantizer};
use crate::model::Model;
use crate::session::Session;
use udo_compile::compiler::Resources;
use udo_compile::options::CompileOptions;
use udo_graph::graph::{CutGraph, Graph, GraphValue, Source, ValueId};
use udo_graph::memory::Tensor;

/// Runs of a model, and what is known of the watched values.
#[derive(Debug)]
pub struct Calibration {
    /// The session that computes the values; `None` if only inputs are watched.
    session: Option<Session>,
    watched: Vec<Watched>,
    /// The model's inputs, and the ends at which their elements may be masks.
    inputs: Vec<(String, MaskEnds)>,
    runs: usize,
}

/// A watched value.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) value: ValueId,
    name: String,
    is_input: bool,
    pub(super) observer: Observer,
    pub(super) means: Option<Means>,
}

/// The mean of a value at each position of an axis.
#[derive(Clone, Debug)]
pub(super) struct Means {
    axis: usize,
    sums: Vec<f64>,
    count: f64,
}

impl Means {
    fn add(&mut self, numbers: &[f32], dims: &[usize]) {
        let along = Along::new(dims, Some(self.axis));
        self.sums.resize(along.count, 0.0);
        for (at, &number) in numbers.iter().enumerate() {
            self.sums[along.at(at)] += f64::from(number);
        }
        #[expect(clippy::cast_precision_loss, reason = "a mean is not exact")]
        let count = (numbers.len() / along.count) as f64;
        self.count += count;
    }

    /// Returns the means.
    pub(super) fn means(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum / self.count.max(1.0)).collect()
    }
}

/// The statistics to record.
pub(super) struct Statistics {
    /// Whether to record histograms.
    pub(super) histograms: bool,
    /// The values whose means along an axis are recorded.
    pub(super) means: HashMap<ValueId, usize>,
}

/// Returns a model whose outputs are these values; `None` if all of them are inputs.
fn model_of(
    graph: &Graph,
    values: impl Iterator<Item = ValueId>,
    resources: &Resources,
    options: &CompileOptions,
) -> Result<Option<Model>, QuantError> {
    let outputs: Vec<ValueId> = values.filter(|id| !graph.inputs.contains(id)).collect();
    if outputs.is_empty() {
        return Ok(None);
    }
    let mut graph = graph.clone();
    graph.cut_to(outputs)?;
    Ok(Some(super::model_of(graph, resources, options)?))
}

impl Quantizer {
    /// Prepares calibration runs.
    ///
    /// # Errors
    /// The model cannot be compiled.
    pub fn calibration(
        &self,
        resources: &impl AsRef<Resources>,
        options: &CompileOptions,
    ) -> Result<Calibration, QuantError> {
        let Statistics { histograms, means } = self.statistics();
        let mut ids: Vec<ValueId> = self.sites.groups.iter().map(|group| group.root).collect();
        ids.extend(means.keys());
        ids.extend(self.sites.masks.chosen());
        ids.sort_unstable();
        ids.dedup();
        let model = model_of(&self.graph, ids.iter().copied(), resources.as_ref(), options)?;
        let session = model.map(|model| model.session()).transpose()?;
        let watched = ids.into_iter().map(|value| Watched {
            value,
            name: self
                .graph
                .value(value)
                .map_or_else(|_| String::new(), |of| of.value().name.clone()),
            is_input: self.graph.inputs.contains(&value),
            observer: self.observer(value, histograms),
            means: means.get(&value).map(|&axis| Means { axis, sums: Vec::new(), count: 0.0 }),
        });
        let watched = watched.collect();
        Ok(Calibration { session, watched, inputs: self.inputs(), runs: 0 })
    }

    /// Returns an observer for a value that records what its consumers need.
    fn observer(&self, value: ValueId, histograms: bool) -> Observer {
        let observer = Observer::new(histograms).telling_masks(self.sites.masks.ends(value));
        let group = self.sites.of.get(value).copied().flatten();
        match group.and_then(|group| self.sites.groups.get(group)) {
            Some(group) if group.root == value && group.fixed.is_none() => {
                observer.measuring(self.settings.least_width, self.levels(group).steps())
            }
            _ => observer,
        }
    }

    /// Returns the float inputs, and the ends at which their elements may be masks.
    fn inputs(&self) -> Vec<(String, MaskEnds)> {
        let of = |&id: &ValueId| {
            let value = self.graph.value(id).ok()?;
            // A half-precision input is widened by its only consumer.
            let is_half = matches!(&value.source, Source::Input(of) if of.dtype != DType::F32);
            let mut nodes = self.graph.nodes.iter();
            let wide = nodes.find(|node| is_half && node.input(0) == Some(id));
            let read = wide.and_then(|node| node.output(0)).unwrap_or(id);
            Some((value.name.clone(), self.sites.masks.ends(read)))
        };
        self.graph.inputs.iter().filter_map(of).collect()
    }
}

/// Returns whether a tensor has NaN elements, and the range of the others; `None` if it is not a float tensor.
fn numbers_of(tensor: &Tensor) -> Option<(bool, Range)> {
    let of = |numbers: &[f32]| {
        (numbers.iter().any(|number| number.is_nan()), Range::from_numbers(numbers))
    };
    if let Some(numbers) = tensor.get::<f32>() {
        return Some(of(numbers));
    }
    let narrow: Vec<f32> = match tensor.dtype() {
        DType::F64 => tensor.get::<f64>()?.iter().copied().map(to_single).collect(),
        DType::F16 => tensor.get::<F16>()?.iter().map(|half| half.to_f32()).collect(),
        DType::Bf16 => tensor.get::<Bf16>()?.iter().map(|half| half.to_f32()).collect(),
        _ => return None,
    };
    Some(of(&narrow))
}

/// Refuses inputs with NaN elements, or with infinite elements that are not only masks.
fn check(inputs: &[(String, Tensor)], ends: &[(String, MaskEnds)]) -> Result<(), QuantError> {
    for (value, tensor) in inputs {
        let Some((_, ends)) = ends.iter().find(|(known, _)| known == value) else { continue };
        let Some((has_nan, range)) = numbers_of(tensor) else { continue };
        if has_nan {
            return Err(QuantError::NotANumber { value: value.clone() });
        }
        let is_infinite = |end: End| !range.is_empty() && end.end(range).is_infinite();
        if End::BOTH.into_iter().any(|end| is_infinite(end) && !ends.has(end)) {
            return Err(QuantError::Infinite { value: value.clone() });
        }
    }
    Ok(())
}

impl Calibration {
    /// Runs the model with inputs, by name, and records its values.
    ///
    /// # Errors
    /// An input does not match the model or has NaN elements, or the run fails.
    pub fn add(&mut self, inputs: &[(String, Tensor)]) -> Result<(), QuantError> {
        let Self { session, watched, inputs: ends, runs } = self;
        check(inputs, ends)?;
        if let Some(session) = session {
            run(session, inputs)?;
        }
        for watched in watched {
            let tensor;
            let (numbers, dims) = if watched.is_input {
                let given = inputs.iter().find(|(name, _)| *name == watched.name);
                let Some((_, tensor)) = given else { continue };
                (tensor.get::<f32>().unwrap_or_default(), tensor.dims())
            } else if let Some(session) = &*session {
                tensor = session.output_desc(&watched.name)?;
                (session.output::<f32>(&watched.name)?, tensor.shape())
            } else {
                continue;
            };
            watched.observer.add(numbers);
            if let Some(means) = &mut watched.means {
                means.add(numbers, dims);
            }
        }
        *runs += 1;
        Ok(())
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the range of the numbers that a value had; nothing for a value that is not stored or had no number.
    pub fn range(&self, name: &str) -> Option<Range> {
        self.observer(name).map(Observer::range).filter(|range| !range.is_empty())
    }

    /// Returns the histogram of a value in `count` bars, if there is one: where the first bar begins, the width of a bar, and how many
    /// numbers lie in each.
    pub fn histogram(&self, name: &str, count: usize) -> Option<(f64, f64, Vec<u64>)> {
        Some(self.observer(name)?.histogram()?.parts(count))
    }

    /// The observer of a value whose range determines an encoding.
    pub(super) fn observer(&self, name: &str) -> Option<&Observer> {
        let of = self.watched.iter().find(|watched| watched.name == name);
        of.map(|watched| &watched.observer)
    }

    /// Returns the values that had NaN elements, which their ranges ignore.
    pub fn not_numbers(&self) -> impl Iterator<Item = &str> {
        let watched = self.watched.iter().filter(|watched| watched.observer.has_nan());
        watched.map(|watched| watched.name.as_str())
    }

    /// Returns the statistics of a value.
    pub(super) fn get(&self, value: ValueId) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.value == value)
    }
}

/// Runs a model with those of the inputs that it has.
pub(super) fn run(session: &mut Session, inputs: &[(String, Tensor)]) -> Result<(), QuantError> {
    let model = session.model();
    for input in model.inputs() {
        if let Some((_, tensor)) = inputs.iter().find(|(name, _)| *name == input.name) {
            session.set_input(&input.name, tensor)?;
        }
    }
    Ok(session.run()?)
}
