//! Removes nodes whose output equals an earlier value.

use std::collections::{BTreeSet, HashMap};

use super::{Candidate, Extents, Uses, common_subexpressions, replace};
use crate::compiler::Compiler;
use crate::resolve::TypedGraph;
use udo_graph::graph::{NodeReads, ValueId};

/// Makes consumers of such an output read the value that `find` returns, removes the nodes, and returns their number.
/// Outputs of the graph, and values at the ends of branches and loops, stay.
pub(super) fn elide(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    find: fn(&Candidate<'_>) -> Option<ValueId>,
) -> usize {
    let uses = Uses::new(graph, Extents::default());
    let control = graph.nodes.iter().filter(|bound| bound.control.is_some());
    let mut kept = common_subexpressions::values_with_fixed_ids(graph);
    kept.extend(control.flat_map(|bound| bound.node.reads()).map(|(_, value)| value));
    let (mut same, mut gone) = (HashMap::new(), BTreeSet::new());
    for id in graph.node_ids() {
        let Some(node) = Candidate::at(graph, compiler, &uses, id) else { continue };
        let output = node.node().node.output(0).filter(|output| !kept.contains(output));
        if let (Some(output), Some(value)) = (output, find(&node)) {
            same.insert(output, same.get(&value).copied().unwrap_or(value));
            gone.insert(id);
        }
    }
    for input in graph.nodes.iter_mut().flat_map(|bound| bound.node.inputs.iter_mut().flatten()) {
        *input = same.get(input).copied().unwrap_or(*input);
    }
    replace::remove(graph, &gone);
    gone.len()
}
