//! Evaluates nodes of a graph on other values than their own inputs.

use super::TypedGraph;
use crate::compiler::Compiler;
use crate::resolve::bind_builtin;
use udo_graph::graph::{Graph, NodeId};
use udo_graph::memory::Tensor;

/// Applies a chain of nodes to a constant: the first node to `to`, each later one to the result of the one before. Each
/// node reads that value at the port beside it and known values at its other ports. Returns `None` if a node cannot be
/// computed before a run.
pub(crate) fn apply_to_constant(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    nodes: &[(NodeId, usize)],
    to: Tensor,
) -> Option<Tensor> {
    let mut apart = TypedGraph(Graph {
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
    let mut made = apart.add_constant("", to);
    for &(id, port) in nodes {
        let mut node = graph.node(id).ok()?.node.clone();
        for (at, input) in node.inputs.iter_mut().enumerate() {
            *input = match input {
                Some(_) if at == port => Some(made),
                Some(other) => Some(apart.add_constant("", graph.known(Some(*other))?.clone())),
                None => None,
            };
        }
        made = apart.add_value("");
        node.outputs = vec![Some(made)];
        bind_builtin(compiler, &mut apart, node).ok()?;
    }
    apart.known(Some(made)).cloned()
}
