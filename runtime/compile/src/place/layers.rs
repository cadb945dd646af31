//! Documented limits of the DSP for single layers, by operator. They apply to the nodes of the original model (layers),
//! which passes may have replaced by other nodes.

use std::collections::{BTreeSet, HashMap};

use udo_host::ParamSetting;

use crate::compiler::Compiler;
use crate::resolve::{BoundNode, TypedGraph};
use udo_engine::cores::DeviceLimits;
use udo_graph::graph::{Node, ValueId};

/// The chapter of docs/dsp.md that states these limits.
pub(super) const CHAPTER: &str = "Layers";

/// A layer that a device does not support, or only in part.
pub(super) struct LayerRule {
    /// Its operator, of ONNX's own domain.
    op: &'static str,
    /// The rule as the chapter states it.
    pub(super) says: &'static str,
    /// Returns whether the rule refuses a node.
    refuses: fn(&TypedGraph, &BoundNode) -> bool,
}

pub(super) const LAYERS: &[LayerRule] = &[
    LayerRule { op: "Elu", says: "ELU runs only on the CPU and the GPU", refuses: |_, _| true },
    LayerRule {
        op: "LpNormalization",
        says: "L2Norm runs only on the CPU and the GPU",
        refuses: |_, bound| {
            let settings = bound.params.settings().iter();
            settings.into_iter().any(|(name, value)| *name == "p" && *value == ParamSetting::Int(2))
        },
    },
    LayerRule {
        op: "Pow",
        says: "the DSP's Power has an exponent of 1",
        refuses: |graph, bound| {
            let power = graph.known(bound.node.input(1)).and_then(|tensor| tensor.get::<f32>());
            !power.is_some_and(|power| power.iter().all(|power| power.to_bits() == 1f32.to_bits()))
        },
    },
    LayerRule {
        op: "Pad",
        says: "the DSP's Pad has 4 dimensions",
        refuses: |graph, bound| graph.desc(bound.node.input(0)).rank() != 4,
    },
    LayerRule { op: "Pad", says: "the DSP's Pad does not pad the batch", refuses: pads_batch },
];

/// Returns whether a node pads the first of four axes, or may do so.
fn pads_batch(graph: &TypedGraph, node: &BoundNode) -> bool {
    let known = |port| graph.known(node.node.input(port)).and_then(|tensor| tensor.get::<i64>());
    let Some(pads) = known(1) else { return true };
    let axes = match (node.node.input(3), known(3)) {
        (None, _) => &[0, 1, 2, 3][..],
        (Some(_), Some(axes)) => axes,
        (Some(_), None) => return true,
    };
    let (begin, end) = pads.split_at(pads.len() / 2);
    let mut pads_by_axis = axes.iter().zip(begin.iter().zip(end));
    pads_by_axis.any(|(&axis, (&begin, &end))| (axis == 0 || axis == -4) && (begin, end) != (0, 0))
}

/// A node of the original model.
#[derive(Debug)]
struct Layer {
    name: String,
    op: String,
    inputs: Vec<ValueId>,
    /// The rule that refuses it.
    refused: Option<&'static str>,
}

/// The nodes of the original model; empty unless limits are enabled.
#[derive(Debug, Default)]
pub struct Layers {
    layers: Vec<Layer>,
    /// The index of the layer that computes each value.
    producers: HashMap<ValueId, usize>,
}

impl Layers {
    /// Collects the layers of a graph that no pass has rewritten, if limits are enabled.
    pub fn new(compiler: &Compiler<'_>, graph: &TypedGraph) -> Self {
        let limits = compiler.options.place.profile.limits;
        let mut layers = Self::default();
        let nodes = graph.nodes.iter().filter(|_| limits == DeviceLimits::Documented);
        for (index, bound) in nodes.enumerate() {
            let node = &bound.node;
            let refuses = |rule: &&LayerRule| {
                let is_onnx =
                    node.domain.is_empty() && compiler.operators.is_builtin(bound.package);
                is_onnx && rule.op == node.op && (rule.refuses)(graph, bound)
            };
            let rule = LAYERS.iter().find(refuses).filter(|_| !bound.is_folded);
            layers.producers.extend(node.outputs.iter().flatten().map(|&value| (value, index)));
            layers.layers.push(Layer {
                name: node.name.clone(),
                op: node.op.clone(),
                inputs: node.inputs.iter().copied().flatten().collect(),
                refused: rule.map(|rule| rule.says),
            });
        }
        layers
    }

    fn producer(&self, value: ValueId) -> Option<&Layer> {
        self.layers.get(*self.producers.get(&value)?)
    }

    /// Returns whether a value is an input of the network, or one converted to another type.
    pub(super) fn is_network_input(&self, graph: &TypedGraph, value: ValueId) -> bool {
        let is_conversion =
            |layer: &&Layer| matches!(layer.op.as_str(), "QuantizeLinear" | "DequantizeLinear");
        let mut value = value;
        while let Some(layer) = self.producer(value).filter(is_conversion) {
            let Some(&input) = layer.inputs.first() else { return false };
            value = input;
        }
        graph.inputs.contains(&value)
    }

    /// Returns a layer that a node computes and the device does not support, with the rule. A node computes the layers
    /// between its outputs and its inputs, or earlier values for which `is_produced` holds.
    pub(super) fn refused(
        &self,
        node: &Node,
        is_produced: impl Fn(ValueId) -> bool,
    ) -> Option<(String, &'static str)> {
        let mut unvisited: Vec<ValueId> = node.outputs.iter().copied().flatten().collect();
        let mut seen = BTreeSet::new();
        while let Some(value) = unvisited.pop() {
            let Some(layer) = self.producer(value).filter(|_| seen.insert(value)) else { continue };
            if let Some(says) = layer.refused {
                return Some((format!("layer {:?} is {}", layer.name, layer.op), says));
            }
            let inputs = layer.inputs.iter().copied();
            unvisited
                .extend(inputs.filter(|id| !node.inputs.contains(&Some(*id)) && !is_produced(*id)));
        }
        None
    }
}
