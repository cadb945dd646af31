//! The nodes of a network, one row each: what they make, who takes them, and what they cost.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use udo_api::Core;
use udo_graph::container::StoredGraph;
use udo_runtime::compile::Surveyed;
use udo_runtime::graph::{Graph, Node};

use super::macs::macs;
use udo_graph::graph::NodeReads;
use udo_graph::memory::TensorStorage;

/// A node.
pub(super) struct Layer {
    pub(super) id: u32,
    /// Behind the names of the nodes whose subgraphs it is in.
    pub(super) name: String,
    /// With its domain.
    pub(super) op: String,
    /// Names and types, as far as they are known.
    pub(super) outputs: Vec<(String, String)>,
    /// Each core, and why it does not take the node; empty where that is not known.
    pub(super) cores: Vec<(Core, Option<String>)>,
    /// Elements of constants that no earlier node reads.
    pub(super) parameters: usize,
    pub(super) macs: Option<u64>,
}

/// The nodes of a graph; what is known of their types comes from `surveyed`.
pub(super) fn layers(of: &StoredGraph, surveyed: &[Surveyed]) -> Vec<Layer> {
    let by_name = surveyed.iter().rev().map(|node| (node.name.as_str(), node)).collect();
    let ids = of.ids.iter().copied();
    let mut rows = Rows { surveyed: by_name, ids, counted: HashSet::new(), layers: Vec::new() };
    rows.graph(&of.graph, "");
    rows.layers
}

struct Rows<'a, I> {
    surveyed: HashMap<&'a str, &'a Surveyed>,
    ids: I,
    /// The constants whose elements have been counted.
    counted: HashSet<u64>,
    layers: Vec<Layer>,
}

impl<I: Iterator<Item = u32>> Rows<'_, I> {
    fn graph(&mut self, graph: &Graph, way: &str) {
        for node in &graph.nodes {
            self.node(graph, node, way);
            for subgraph in node.subgraphs() {
                let way = format!("{way}{}/{}/", node.name, subgraph.attribute);
                self.graph(subgraph.graph, &way);
            }
        }
    }

    fn node(&mut self, graph: &Graph, node: &Node, way: &str) {
        let name = format!("{way}{}", node.name);
        let surveyed = self.surveyed.get(name.as_str()).copied();
        let outputs = match surveyed {
            Some(surveyed) => {
                let of = |(name, desc): &(String, _)| (name.clone(), format!("{desc}"));
                surveyed.outputs.iter().map(of).collect()
            }
            None => declared(graph, node),
        };
        let mut parameters = 0usize;
        for tensor in node.inputs.iter().flatten().filter_map(|&id| graph.constant(id)) {
            if self.counted.insert(tensor.id()) {
                parameters = parameters.saturating_add(tensor.desc().len());
            }
        }
        let domain = if node.domain.is_empty() { "" } else { ":" };
        self.layers.push(Layer {
            id: self.ids.next().unwrap_or(u32::MAX),
            name,
            op: format!("{}{domain}{}", node.domain, node.op),
            outputs,
            cores: surveyed.map(|of| of.cores.clone()).unwrap_or_default(),
            parameters,
            macs: surveyed.and_then(macs),
        });
    }
}

/// Returns the names and declared types of a node's outputs.
fn declared(graph: &Graph, node: &Node) -> Vec<(String, String)> {
    let values = node.outputs.iter().flatten().filter_map(|&id| graph.value(id).ok());
    let of = values.map(|value| {
        let of = value.declared.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
        (value.name.clone(), of)
    });
    of.collect()
}

impl Layer {
    /// The cores that take it, in short, or `?`.
    pub(super) fn takers(&self) -> String {
        if self.cores.is_empty() {
            return "?".to_owned();
        }
        let takers = self.cores.iter().filter(|(_, reason)| reason.is_none());
        takers.map(|(core, _)| core.to_string()).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn to_json(&self) -> Value {
        let outputs = self.outputs.iter().map(|(name, of)| json!({ "name": name, "type": of }));
        let cores = self.cores.iter().map(|(core, reason)| {
            json!({ "core": core.to_string(), "takes": reason.is_none(), "reason": reason })
        });
        json!({
            "id": self.id, "name": self.name, "op": self.op, "outputs": outputs.collect::<Vec<_>>(),
            "cores": cores.collect::<Vec<_>>(), "parameters": self.parameters, "macs": self.macs,
        })
    }
}

/// A count and its share of a total, in words.
pub(super) fn share(count: u64, total: u64) -> String {
    if count == 0 || total == 0 {
        return String::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a share for the eye")]
    let share = count as f64 / total as f64 * 100.0;
    format!("{count} ({share:.1}%)")
}
