//! Removes nodes whose output equals an earlier value, such as a `Reshape` to the same shape. Passes supply the
//! matcher.

use std::collections::{BTreeSet, HashMap};

use super::{Candidate, Extents, Uses, common_subexpressions, replace};
use crate::compiler::Compiler;
use crate::resolve::TypedGraph;
use udo_graph::graph::{NodeReads, ValueId};

/// Removes the nodes for which `find` returns a value that equals their output, and returns their number. Consumers of
/// the output read that value instead. Outputs of the graph, and values that control-flow nodes read, stay.
pub(super) fn elide(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    find: fn(&Candidate<'_>) -> Option<ValueId>,
) -> usize {
    let uses = Uses::new(graph, Extents::default());
    let control_nodes = graph.nodes.iter().filter(|bound| bound.control.is_some());
    let mut unchanged = common_subexpressions::named_values(graph);
    unchanged.extend(control_nodes.flat_map(|bound| bound.node.reads()).map(|(_, value)| value));
    let (mut replacements, mut removed) = (HashMap::new(), BTreeSet::new());
    for id in graph.node_ids() {
        let Some(node) = Candidate::at(graph, compiler, &uses, id) else { continue };
        let output = node.node().node.output(0).filter(|output| !unchanged.contains(output));
        if let (Some(output), Some(value)) = (output, find(&node)) {
            replacements.insert(output, replacements.get(&value).copied().unwrap_or(value));
            removed.insert(id);
        }
    }
    for input in graph.nodes.iter_mut().flat_map(|bound| bound.node.inputs.iter_mut().flatten()) {
        *input = replacements.get(input).copied().unwrap_or(*input);
    }
    replace::remove(graph, &removed);
    removed.len()
}
