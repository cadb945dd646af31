//! Runs a model in numbers and remembers what its values were, as much of all runs as of one.

use std::collections::HashMap;

use super::observe::Observer;
use super::weights::Along;
use super::{QuantError, Quantizer};
use crate::graph::{Graph, GraphValue, ValueId};
use crate::memory::Tensor;
use crate::model::{Model, Options, Session};
use crate::registry::Registry;

/// A stream of runs, and what is known of the values that are watched.
#[derive(Debug)]
pub struct Calibration {
    /// What makes the values; none where inputs alone are watched.
    session: Option<Session>,
    watched: Vec<Watched>,
    runs: usize,
}

/// A value, and what is known of it.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) value: ValueId,
    name: String,
    is_input: bool,
    pub(super) observer: Observer,
    pub(super) means: Option<Means>,
}

/// The mean of a value for each position of an axis.
#[derive(Clone, Debug)]
pub(super) struct Means {
    axis: usize,
    sums: Vec<f64>,
    count: f64,
}

impl Means {
    fn add(&mut self, numbers: &[f32], dims: &[usize]) {
        let along = Along::of(dims, Some(self.axis));
        self.sums.resize(along.count, 0.0);
        for (at, &number) in numbers.iter().enumerate() {
            self.sums[along.at(at)] += f64::from(number);
        }
        #[expect(clippy::cast_precision_loss, reason = "a mean is not exact")]
        let count = (numbers.len() / along.count) as f64;
        self.count += count;
    }

    /// The means.
    pub(super) fn means(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum / self.count.max(1.0)).collect()
    }
}

/// What is to be remembered of values.
pub(super) struct Wishes {
    /// Whether it is to be known how often numbers were near which.
    pub(super) histograms: bool,
    /// The values of which means along an axis are to be known.
    pub(super) means: HashMap<ValueId, usize>,
}

/// A graph that gives these values, and its model; none where all of them are inputs.
fn model_of(
    graph: &Graph,
    values: impl Iterator<Item = ValueId>,
    registry: &Registry,
    options: &Options,
) -> Result<Option<Model>, QuantError> {
    let outputs: Vec<ValueId> = values.filter(|id| !graph.inputs.contains(id)).collect();
    if outputs.is_empty() {
        return Ok(None);
    }
    let mut graph = graph.clone();
    graph.cut_to(outputs)?;
    Ok(Some(Model::compile(graph, &mut registry.clone(), options)?))
}

impl Quantizer {
    /// What observes runs over the data that the model is calibrated with.
    ///
    /// # Errors
    /// The model cannot be made to run.
    pub fn calibration(
        &self,
        registry: &impl AsRef<Registry>,
        options: &Options,
    ) -> Result<Calibration, QuantError> {
        let Wishes { histograms, means } = self.wishes();
        let mut ids: Vec<ValueId> = self.sites.groups.iter().map(|group| group.root).collect();
        ids.extend(means.keys().filter(|id| !self.sites.groups.iter().any(|of| of.root == **id)));
        ids.sort_unstable();
        let model = model_of(&self.graph, ids.iter().copied(), registry.as_ref(), options)?;
        let session = model.map(|model| model.session()).transpose()?;
        let watched = ids.into_iter().map(|value| Watched {
            value,
            name: self
                .graph
                .value(value)
                .map_or_else(|_| String::new(), |of| of.value().name.clone()),
            is_input: self.graph.inputs.contains(&value),
            observer: Observer::new(histograms),
            means: means.get(&value).map(|&axis| Means { axis, sums: Vec::new(), count: 0.0 }),
        });
        Ok(Calibration { session, watched: watched.collect(), runs: 0 })
    }
}

impl Calibration {
    /// Runs the model over inputs, by name, and takes in what its values are.
    ///
    /// # Errors
    /// Inputs that the model does not take, or a run that fails.
    pub fn add(&mut self, inputs: &[(String, Tensor)]) -> Result<(), QuantError> {
        let Self { session, watched, runs } = self;
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

    /// How many runs there were.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// What is known of all numbers that a value was, if it is one whose range says an encoding.
    pub fn observer(&self, name: &str) -> Option<&Observer> {
        let of = self.watched.iter().find(|watched| watched.name == name);
        of.map(|watched| &watched.observer)
    }

    /// What is known of a value.
    pub(super) fn of(&self, value: ValueId) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.value == value)
    }
}

/// Runs a model over those of the inputs that it has.
pub(super) fn run(session: &mut Session, inputs: &[(String, Tensor)]) -> Result<(), QuantError> {
    let model = session.model();
    for input in model.inputs() {
        if let Some((_, tensor)) = inputs.iter().find(|(name, _)| *name == input.name) {
            session.set_input(&input.name, tensor)?;
        }
    }
    Ok(session.run()?)
}
