//! Dead-code elimination, one of the passes: removes nodes whose outputs nothing reads.

use std::collections::BTreeSet;

use super::replace;
use crate::resolve::TypedGraph;
use udo_graph::graph::{NodeReads, PerValue};

/// Removes nodes whose outputs nothing reads, and returns their number. Control-flow nodes stay.
pub(super) fn remove(graph: &mut TypedGraph) -> usize {
    let mut is_read = PerValue::filled(graph, false);
    for &output in &graph.outputs {
        is_read.set(output, true);
    }
    let mut removed = BTreeSet::new();
    // Backwards: a node's consumers are visited before the node.
    for (id, bound) in graph.node_ids().zip(&graph.nodes).collect::<Vec<_>>().into_iter().rev() {
        let mut outputs = bound.node.outputs.iter().flatten();
        let is_needed = bound.control.is_some() || outputs.any(|&v| is_read.get(v) == Some(&true));
        if is_needed {
            bound.node.reads().for_each(|(_, value)| is_read.set(value, true));
        } else {
            removed.insert(id);
        }
    }
    replace::remove(graph, &removed);
    removed.len()
}
