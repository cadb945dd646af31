//! Edits of a graph: replaces values, finds unused names, and removes unused nodes.

use std::collections::{HashMap, HashSet};

use udo_graph::graph::{
    Graph, GraphNode, GraphValue, Node, NodeReads, PerValue, ValueId, subgraphs_mut,
};

/// Replaces values in all nodes, and removes the nodes that compute the replaced ones. The producer of a graph output
/// computes it in place of its own value.
pub(super) fn substitute(graph: &mut Graph, by: &HashMap<ValueId, ValueId>) {
    let last = |id: ValueId| {
        let mut id = id;
        while let Some(&next) = by.get(&id) {
            id = next;
        }
        id
    };
    graph.nodes.retain(|node| node.output(0).is_none_or(|output| !by.contains_key(&output)));
    for node in &mut graph.nodes {
        redirect(node, &last);
    }
    let outputs = graph.outputs.iter().filter(|output| by.contains_key(output));
    let made: HashMap<ValueId, ValueId> = outputs.map(|&output| (last(output), output)).collect();
    let own = |id: ValueId| made.get(&id).copied().unwrap_or(id);
    for node in &mut graph.nodes {
        node.outputs.iter_mut().flatten().for_each(|output| *output = own(*output));
        redirect(node, &own);
    }
}

/// Replaces the inputs of a node and the captures of its subgraphs by `last`.
pub(super) fn redirect(node: &mut Node, last: &impl Fn(ValueId) -> ValueId) {
    for input in node.inputs.iter_mut().flatten() {
        *input = last(*input);
    }
    for capture in subgraphs_mut(node).flat_map(|graph| &mut graph.captures) {
        capture.outer = last(capture.outer);
    }
}

/// Removes nodes whose outputs nothing reads.
pub(super) fn sweep(graph: &mut Graph) {
    let mut is_read = PerValue::filled(graph, false);
    for &output in &graph.outputs {
        is_read.set(output, true);
    }
    let mut nodes = Vec::new();
    for node in std::mem::take(&mut graph.nodes).into_iter().rev() {
        let mut outputs = node.outputs.iter().flatten();
        if outputs.any(|&output| is_read.get(output) == Some(&true)) {
            node.reads().for_each(|(_, value)| is_read.set(value, true));
            nodes.push(node);
        }
    }
    nodes.reverse();
    graph.nodes = nodes;
}

/// The names of a graph's values and nodes.
pub(super) struct Names(HashSet<String>);

impl Names {
    pub(super) fn new(graph: &Graph) -> Self {
        let values = graph.values.iter().map(|value| value.value().name.clone());
        let nodes = graph.nodes.iter().map(|node| node.node().name.clone());
        Self(values.chain(nodes).collect())
    }

    /// Returns an unused name: this one, or this one with a number.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let numbered = (2..).map(|number| format!("{wanted}_{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        let name = names.find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(name.clone());
        name
    }
}
