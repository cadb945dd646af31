//! What the nodes of a model make in a run, one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use udo_runtime::graph::Origin;
use udo_runtime::import::ImportOptions;
use udo_runtime::plan::{NodeReport, Report};
use udo_runtime::runtime::Runtime;

/// What a node makes, and which node that is.
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

impl Layer {
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

/// What nodes make that the model at `path` names itself: where one of its nodes became several, what lies between them is nobody's
/// to ask for. Of a file with several networks all stays.
pub(crate) fn named(report: &Report, runtime: &Runtime, path: &Path) -> Vec<Layer> {
    let mut layers = of(report);
    if let Ok(graph) = runtime.import(path, &ImportOptions::default()) {
        let names: BTreeSet<&str> = graph.values.iter().map(|value| value.name.as_str()).collect();
        layers.retain(|layer| names.contains(layer.value.as_str()));
    }
    layers
}

/// What nodes make, in their order: of those whose work a kernel does together, what the last one makes. What is in
/// subgraphs is left out, and what nothing but a quantize node reads: what that makes of it is there.
fn of(report: &Report) -> Vec<Layer> {
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
