//! The output of each node of a model in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use udo_graph::graph::{NodeReads, Origin};
use udo_runtime::compile::NodeReport;
use udo_runtime::graph::{Graph, ImportOptions, Node};
use udo_runtime::{Report, Runtime};

/// An output of a node.
pub(crate) struct Layer {
    /// The value's name.
    pub(crate) value: String,
    /// The node's name.
    node: String,
    /// Its operator.
    op: String,
    /// The ids of the nodes of the model that it does the work of.
    ids: Origin,
}

impl LeftOut {
    pub(crate) fn to_json(&self) -> Value {
        let Self { value, node, why } = self;
        json!({ "value": value, "node": node, "why": why })
    }
}

impl Layer {
    /// The same as a value that cannot be looked at.
    pub(crate) fn left_out(&self, why: String) -> LeftOut {
        LeftOut { value: self.value.clone(), node: self.node.clone(), why }
    }

    /// The node in words, with the core that it runs on.
    pub(crate) fn on(&self, report: &Report) -> String {
        let Self { node, op, ids, .. } = self;
        let has = |own: &Origin| ids.ids().all(|id| own.ids().any(|known| known == id));
        let does =
            |of: &&NodeReport| of.name == *node || (ids.ids().next().is_some() && has(&of.ids));
        match report.nodes.iter().find(does) {
            Some(of) => format!("{node:?} ({op} on {})", of.core),
            None => format!("{node:?} ({op})"),
        }
    }
}

/// Returns the outputs of nodes that the model at `path` names. If a node of the model became several, the values between them
/// are left out. For a file with several networks, all outputs are returned.
pub(crate) fn named(report: &Report, runtime: &Runtime, path: &Path) -> Vec<Layer> {
    let mut layers = from_report(report);
    if let Ok(graph) = runtime.import(path, &ImportOptions::default()) {
        let names: BTreeSet<&str> = graph.values.iter().map(|value| value.name.as_str()).collect();
        layers.retain(|layer| names.contains(layer.value.as_str()));
    }
    layers
}

/// The values of a model that nodes make and that are not its outputs, by how they can be looked at.
#[derive(Default)]
pub(crate) struct Values {
    /// Values that kernels of the plan compute.
    pub(crate) made: Vec<Layer>,
    /// Values that kernels of the plan do not compute, but those of a plan with these values as outputs do.
    pub(crate) inner: Vec<Layer>,
    /// Values that no plan on these cores computes.
    pub(crate) left_out: Vec<LeftOut>,
    /// The names of all of them, in the model's order.
    names: Vec<String>,
}

/// A value that cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Its name.
    pub(crate) value: String,
    /// The node that makes it.
    pub(crate) node: String,
    /// Why it cannot.
    pub(crate) why: String,
}

impl Values {
    /// The values of a model that the graph `source` was imported to; without it, those that the report names.
    pub(crate) fn of_model(report: &Report, source: Option<&Graph>, outputs: &[String]) -> Self {
        let mut made: BTreeMap<String, Layer> =
            from_report(report).into_iter().map(|layer| (layer.value.clone(), layer)).collect();
        let mut values = Self::default();
        let Some(graph) = source else {
            values.of_report(report, made, outputs);
            return values;
        };
        let is_quantized = graph.nodes.iter().any(|node| {
            node.op.starts_with("QLinear")
                || matches!(&*node.op, "QuantizeLinear" | "DequantizeLinear")
        });
        for node in &graph.nodes {
            for value in outputs_of(graph, node).filter(|value| !outputs.contains(value)) {
                values.names.push(value.clone());
                match made.remove(&value) {
                    Some(layer) => values.made.push(layer),
                    // The kernels of a quantized model are those of whole groups: an output within one would leave other kernels.
                    None if is_quantized => {
                        let why = why_not_made(report, &value);
                        values.left_out.push(LeftOut { value, node: node.name.clone(), why });
                    }
                    None => values.inner.push(Layer {
                        value,
                        node: node.name.clone(),
                        op: node.op.clone(),
                        ids: node.origin.clone(),
                    }),
                }
            }
            values.of_subgraphs(node, &node.name);
        }
        values
    }

    /// Leaves out what subgraphs of `node` make.
    fn of_subgraphs(&mut self, node: &Node, outer: &str) {
        for subgraph in node.subgraphs() {
            for inner in &subgraph.graph.nodes {
                for value in outputs_of(subgraph.graph, inner) {
                    let why = format!(
                        "it is in a subgraph that node {outer:?} runs any number of times; the outputs of that node are compared"
                    );
                    self.left_out.push(LeftOut { value, node: inner.name.clone(), why });
                }
                self.of_subgraphs(inner, outer);
            }
        }
    }

    /// The values that the report names.
    fn of_report(
        &mut self,
        report: &Report,
        mut made: BTreeMap<String, Layer>,
        outputs: &[String],
    ) {
        for node in &report.nodes {
            for value in node.makes.iter().filter(|value| !outputs.contains(value)) {
                self.names.push(value.clone());
                match made.remove(value) {
                    Some(layer) => self.made.push(layer),
                    None => self.left_out.push(LeftOut {
                        value: value.clone(),
                        node: node.name.clone(),
                        why: why_not_made(report, value),
                    }),
                }
            }
        }
    }

    /// Those that can be looked at, in the model's order.
    pub(crate) fn in_order(&self) -> Vec<&Layer> {
        let place = |layer: &&Layer| self.names.iter().position(|name| *name == layer.value);
        let mut layers: Vec<&Layer> = self.made.iter().chain(&self.inner).collect();
        layers.sort_by_key(place);
        layers
    }
}

/// The names of what a node makes.
fn outputs_of(graph: &Graph, node: &Node) -> impl Iterator<Item = String> {
    let name = |id| graph.value(id).ok().map(|value| value.name.clone());
    node.outputs.iter().flatten().copied().filter_map(name)
}

/// Why no kernel makes a value.
fn why_not_made(report: &Report, value: &str) -> String {
    let is_read = |node: &&NodeReport| node.reads.iter().any(|read| read == value);
    let mut readers = report.nodes.iter().filter(is_read).peekable();
    let has_readers = readers.peek().is_some();
    if has_readers && readers.all(|node| node.op == "QuantizeLinear") {
        return "only QuantizeLinear nodes read it; their outputs are compared".to_owned();
    }
    let makes = |node: &&NodeReport| node.makes.iter().any(|made| made == value);
    let Some(node) = report.nodes.iter().find(makes) else {
        return "graph passes removed it; `udo explain` lists the remaining nodes".to_owned();
    };
    let goes_on = || report.nodes.iter().any(|of| of.fused_into.as_ref() == Some(&node.name));
    match (&node.fused_into, node.reads.first()) {
        (Some(by), _) => {
            format!("its node is fused into node {by:?}, which computes only the final result")
        }
        (None, Some(read)) if node.is_view => format!("it is the same memory as {read:?}"),
        (None, _) if node.is_folded => "it is constant-folded".to_owned(),
        (None, _) if goes_on() => {
            format!(
                "later nodes are fused into node {:?}, which computes only the final result",
                node.name
            )
        }
        (None, _) => "no step of the plan computes it".to_owned(),
    }
}

/// Returns the outputs of nodes in their order. Of fused nodes, these are the outputs of the last one. Values in subgraphs are
/// left out, and so are values that only `QuantizeLinear` nodes read: the outputs of those nodes are returned instead.
fn from_report(report: &Report) -> Vec<Layer> {
    let mut is_quantized: BTreeMap<&str, bool> = BTreeMap::new();
    for node in &report.nodes {
        for value in &node.reads {
            *is_quantized.entry(value).or_insert(true) &= node.op == "QuantizeLinear";
        }
    }
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, node) in report.nodes.iter().enumerate() {
        if let Some(by) = &node.fused_into {
            last.insert(by, at);
        }
    }
    let is_made = |at: usize, node: &NodeReport| match &node.fused_into {
        Some(by) => last.get(by.as_str()) == Some(&at),
        None => !last.contains_key(node.name.as_str()),
    };
    let is_step = |node: &NodeReport| {
        !node.is_view && !node.is_folded && node.control.is_none() && node.depth == 0
    };
    let nodes = report.nodes.iter().enumerate();
    let made = nodes.filter(|(at, node)| is_step(node) && is_made(*at, node));
    let layers = made.flat_map(|(_, node)| {
        let seen =
            node.makes.iter().filter(|value| is_quantized.get(value.as_str()) != Some(&true));
        seen.map(|value| Layer {
            value: value.clone(),
            node: node.name.clone(),
            op: node.op.clone(),
            ids: node.ids.clone(),
        })
    });
    layers.collect()
}
