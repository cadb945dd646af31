//! Runs a model and its quantized form with the same inputs, and measures the differences of their values.

use super::calibrate::run;
use super::encoded::Kind;
use super::noise::Noise;
use super::range::Range;
use super::{QuantError, Quantized, Quantizer};
use crate::session::Session;
use udo_compile::compiler::Resources;
use udo_compile::options::CompileOptions;
use udo_graph::graph::{Graph, Links, ValueId};
use udo_graph::memory::Tensor;

/// Runs of both models.
#[derive(Debug)]
pub struct Comparison {
    exact: Session,
    quantized: Session,
    /// The values of both models and what was found: in the order of the graph, then outputs that are not stored.
    pub values: Vec<Compared>,
}

/// A value of both models.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Its name in the quantized model.
    other: String,
    /// Whether it is an output of the model.
    pub is_output: bool,
    /// Its error, without elements that are masks.
    pub noise: Noise,
    unmasked: Option<Range>,
}

/// Returns the graph with more outputs, and those of them that nodes compute.
fn with_outputs<'a>(graph: &Graph, names: impl Iterator<Item = &'a str>) -> (Graph, Vec<String>) {
    let mut graph = graph.clone();
    let makers = graph.producers();
    let mut found = Vec::new();
    for name in names {
        let id = graph.value_ids().find(|&id: &ValueId| {
            let is_made = makers.get(id).copied().flatten().is_some();
            is_made && graph.value(id).is_ok_and(|value| value.name == name)
        });
        let Some(id) = id else { continue };
        if !graph.outputs.contains(&id) {
            graph.outputs.push(id);
        }
        found.push(name.to_owned());
    }
    (graph, found)
}

impl Comparison {
    /// Prepares runs of a model and its quantized form.
    ///
    /// # Errors
    /// One of them cannot be compiled.
    pub fn new(
        source: &Quantizer,
        quantized: &Quantized,
        resources: &impl AsRef<Resources>,
        options: &CompileOptions,
    ) -> Result<Self, QuantError> {
        let name = |id: &ValueId| Some(source.graph.value(*id).ok()?.name.clone());
        let outputs: Vec<String> = source.graph.outputs.iter().filter_map(name).collect();
        let values = quantized.encoded.iter().filter(|of| of.kind == Kind::Activation);
        let mut pairs: Vec<Compared> = values
            .map(|of| Compared {
                name: of.name.clone(),
                other: of.back.clone(),
                is_output: outputs.contains(&of.name),
                noise: Noise::default(),
                unmasked: of.unmasked,
            })
            .collect();
        for name in outputs {
            if !pairs.iter().any(|pair| pair.name == name) {
                let other = name.clone();
                let (noise, unmasked) = (Noise::default(), None);
                pairs.push(Compared { name, other, is_output: true, noise, unmasked });
            }
        }
        let names = pairs.iter().map(|pair| pair.name.as_str());
        let (exact, known) = with_outputs(&source.graph, names);
        pairs.retain(|pair| known.contains(&pair.name));
        let others = pairs.iter().map(|pair| pair.other.as_str());
        let (other, known) = with_outputs(&quantized.graph, others);
        pairs.retain(|pair| known.contains(&pair.other));
        let session = |graph| -> Result<Session, QuantError> {
            Ok(super::model_of(graph, resources.as_ref(), options)?.session()?)
        };
        let (exact, quantized) = (session(exact)?, session(other)?);
        Ok(Self { exact, quantized, values: pairs })
    }

    /// Runs both models with inputs, by name.
    ///
    /// # Errors
    /// An input does not match the model, or a run fails.
    pub fn add(&mut self, inputs: &[(String, Tensor)]) -> Result<(), QuantError> {
        run(&mut self.exact, inputs)?;
        run(&mut self.quantized, inputs)?;
        for pair in &mut self.values {
            // Outputs of other types are what numbers chose.
            let (Ok(wanted), Ok(found)) =
                (self.exact.output::<f32>(&pair.name), self.quantized.output::<f32>(&pair.other))
            else {
                continue;
            };
            match pair.unmasked {
                Some(range) => pair.noise.add_within(range, wanted, found),
                None => pair.noise.add(wanted, found),
            }
        }
        Ok(())
    }
}
