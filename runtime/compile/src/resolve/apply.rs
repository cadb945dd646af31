//! Evaluates a chain of nodes on a constant that replaces their own input. Passes use it to move operators across
//! constants.

use super::TypedGraph;
use crate::compiler::Compiler;
use crate::resolve::bind_builtin;
use udo_graph::graph::{Graph, NodeId};
use udo_graph::memory::Tensor;

/// Applies a chain of nodes to `constant`: the first node to the constant, each later one to the previous result.
/// `nodes` lists each node with the port that reads this value; its other inputs must be constants. Returns `None` if a
/// node cannot be computed before a run.
pub(crate) fn apply_to_constant(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    nodes: &[(NodeId, usize)],
    constant: Tensor,
) -> Option<Tensor> {
    let mut scratch_graph = TypedGraph(Graph {
        name: graph.name.clone(),
        nodes: Vec::new(),
        values: Vec::new(),
        inputs: Vec::new(),
        captures: Vec::new(),
        outputs: Vec::new(),
        defaults: Vec::new(),
        in_place: Vec::new(),
        affinity: Vec::new(),
        compiled: Vec::new(),
    });
    let mut result = scratch_graph.add_constant("", constant);
    for &(id, port) in nodes {
        let mut node = graph.node(id).ok()?.node.clone();
        for (index, input) in node.inputs.iter_mut().enumerate() {
            *input = match input {
                Some(_) if index == port => Some(result),
                Some(other) => {
                    Some(scratch_graph.add_constant("", graph.known(Some(*other))?.clone()))
                }
                None => None,
            };
        }
        result = scratch_graph.add_value("");
        node.outputs = vec![Some(result)];
        bind_builtin(compiler, &mut scratch_graph, node).ok()?;
    }
    scratch_graph.known(Some(result)).cloned()
}
