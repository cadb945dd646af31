//! What nodes of a graph make of other values than they have there.

use super::TypedGraph;
use crate::compiler::Compiler;
use crate::resolve::bind_builtin;
use udo_graph::graph::{Graph, NodeId};
use udo_graph::memory::Tensor;

/// What nodes make of a constant: the first of it, and each other one of what the one before makes. Each reads that at the port
/// beside it, and else what is known. Nothing, if one of them cannot be computed before any run.
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
