//! Inlines a subgraph into the graph around it.

use std::collections::VecDeque;

use super::Parent;
use crate::compiler::Compiler;
use crate::resolve::bind_next;
use crate::resolve::{Binding, ResolveError, TypedGraph};
use udo_graph::graph::{Attr, Capture, Graph, Node, Source, Value, ValueId};

/// The values of the outer graph that a subgraph reads and writes.
#[derive(Default)]
pub(in crate::resolve) struct BodyPorts<'a> {
    /// The values for its inputs.
    pub(in crate::resolve) inputs: &'a [ValueId],
    /// The values that nodes of the subgraph compute its outputs into, where that is possible.
    pub(in crate::resolve) outputs: &'a [Option<ValueId>],
}

/// Binds the nodes of a subgraph and returns its outputs as values of the outer graph. Layout conversions that are
/// inserted for these nodes are not reused outside, because the subgraph may not run.
pub(super) fn bind_body(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    parent: &Parent,
    body: (String, Graph),
    ports: &BodyPorts<'_>,
) -> Result<Vec<ValueId>, ResolveError> {
    let outside = binding.layouts.clone();
    let (nodes, outputs) = open_body(&mut binding.graph, parent, body, ports)?;
    binding.depth += 1;
    bind_all(compiler, binding, nodes)?;
    binding.depth -= 1;
    binding.layouts.leave(outside);
    Ok(outputs)
}

/// Binds nodes one after another, including the nodes that replace one.
pub(super) fn bind_all(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    nodes: Vec<Node>,
) -> Result<(), ResolveError> {
    let mut queue = VecDeque::from(nodes);
    while let Some(node) = queue.pop_front() {
        bind_next(compiler, binding, node)?;
        for node in std::mem::take(&mut binding.pending).into_iter().rev() {
            queue.push_front(node);
        }
    }
    Ok(())
}

/// Adds the values of a subgraph to the graph around it. Returns the subgraph's nodes and outputs in terms of the outer
/// graph.
pub(super) fn open_body(
    graph: &mut TypedGraph,
    parent: &Parent,
    (attribute, body): (String, Graph),
    ports: &BodyPorts<'_>,
) -> Result<(Vec<Node>, Vec<ValueId>), ResolveError> {
    let path = format!("{}/{attribute}", parent.node.name);
    inline(graph, &path, (&attribute, body), ports).map_err(|why| parent.refuse(why.to_string()))
}

/// The reason why a subgraph does not fit into the graph around it.
#[derive(Debug, thiserror::Error)]
pub(in crate::resolve) enum InlineError {
    #[error("its {attribute:?} has {found} inputs, expected {expected} as the node has")]
    Inputs { attribute: String, found: usize, expected: usize },
    #[error("its {attribute:?} has an undefined value")]
    NoValue { attribute: String },
}

/// Adds the values of a subgraph to the graph around it, with `path` before their names. Returns the subgraph's nodes
/// and outputs in terms of the outer graph. Messages call the subgraph `attribute`.
pub(in crate::resolve) fn inline(
    graph: &mut TypedGraph,
    path: &str,
    (attribute, body): (&str, Graph),
    ports: &BodyPorts<'_>,
) -> Result<(Vec<Node>, Vec<ValueId>), InlineError> {
    if body.inputs.len() != ports.inputs.len() {
        let (found, expected) = (body.inputs.len(), ports.inputs.len());
        return Err(InlineError::Inputs { attribute: attribute.to_owned(), found, expected });
    }
    add_values(graph, path, body, ports)
        .ok_or_else(|| InlineError::NoValue { attribute: attribute.to_owned() })
}

/// Adds the values of a subgraph to the outer graph; returns its nodes and outputs in terms of the outer graph.
fn add_values(
    graph: &mut TypedGraph,
    path: &str,
    body: Graph,
    ports: &BodyPorts<'_>,
) -> Option<(Vec<Node>, Vec<ValueId>)> {
    let Graph { nodes, values, inputs, captures, outputs, .. } = body;
    // The outer value for each inner one, where there is one already.
    let mut known = vec![None; values.len()];
    let captured = captures.iter().map(|&Capture { inner, outer }| (inner, outer));
    for (inner, outer) in inputs.into_iter().zip(ports.inputs.iter().copied()).chain(captured) {
        *known.get_mut(inner.index())? = Some(outer);
    }
    for (output, target) in outputs.iter().zip(ports.outputs) {
        let is_computed = matches!(values.get(output.index())?.source, Source::Computed);
        let slot = known.get_mut(output.index())?;
        *slot = slot.or(target.filter(|_| is_computed));
    }
    let mut ids = Vec::with_capacity(values.len());
    for (Value { name, source, .. }, known) in values.into_iter().zip(known) {
        let name = format!("{path}/{name}");
        ids.push(match (known, source) {
            (Some(known), _) => known,
            (None, Source::Constant(tensor)) => graph.add_constant(&name, tensor),
            (None, Source::Computed | Source::Outer | Source::Input(_)) => graph.add_value(&name),
        });
    }
    let id = |inner: ValueId| ids.get(inner.index()).copied();
    let mut renamed = Vec::with_capacity(nodes.len());
    for mut node in nodes {
        node.name = format!("{path}/{}", node.name);
        for value in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
            *value = id(*value)?;
        }
        for capture in node.attrs.iter_mut().flat_map(|(_, attr)| captures_of(attr)) {
            capture.outer = id(capture.outer)?;
        }
        renamed.push(node);
    }
    let outputs = outputs.into_iter().map(id).collect::<Option<_>>()?;
    Some((renamed, outputs))
}

/// Returns the captures of the graphs in an attribute.
fn captures_of(attr: &mut Attr) -> impl Iterator<Item = &mut Capture> {
    let graphs = match attr {
        Attr::Graph(graph) => std::slice::from_mut(&mut **graph),
        Attr::Graphs(graphs) => graphs,
        Attr::Int(_)
        | Attr::Float(_)
        | Attr::Text(_)
        | Attr::Ints(_)
        | Attr::Floats(_)
        | Attr::Texts(_)
        | Attr::Tensor(_) => &mut [],
    };
    graphs.iter_mut().flat_map(|graph| &mut graph.captures)
}
