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
    pub(in crate::resolve) given: &'a [ValueId],
    /// The values that nodes of the subgraph compute its outputs into, where that is possible.
    pub(in crate::resolve) wanted: &'a [Option<ValueId>],
}

/// Binds the nodes of a subgraph and returns its outputs as values of the outer graph. Layout conversions that are
/// inserted for these nodes are not reused outside, because the subgraph may not run.
pub(super) fn bind_body(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    parent: &Parent,
    body: (String, Graph),
    ends: &BodyPorts<'_>,
) -> Result<Vec<ValueId>, ResolveError> {
    let outside = binding.layouts.clone();
    let (nodes, outputs) = open_body(&mut binding.graph, parent, body, ends)?;
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
    let mut left = VecDeque::from(nodes);
    while let Some(node) = left.pop_front() {
        bind_next(compiler, binding, node)?;
        for node in std::mem::take(&mut binding.pending).into_iter().rev() {
            left.push_front(node);
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
    ends: &BodyPorts<'_>,
) -> Result<(Vec<Node>, Vec<ValueId>), ResolveError> {
    let way = format!("{}/{attribute}", parent.node.name);
    inline(graph, &way, (&attribute, body), ends).map_err(|why| parent.refuse(why.to_string()))
}

/// The reason why a subgraph does not fit into the graph around it.
#[derive(Debug, thiserror::Error)]
pub(in crate::resolve) enum InlineError {
    #[error("its {attribute:?} has {found} inputs, expected {wanted} as the node has")]
    Inputs { attribute: String, found: usize, wanted: usize },
    #[error("its {attribute:?} has an undefined value")]
    NoValue { attribute: String },
}

/// Adds the values of a subgraph to the graph around it, with `way` before their names. Returns the subgraph's nodes
/// and outputs in terms of the outer graph. Messages call the subgraph `attribute`.
pub(in crate::resolve) fn inline(
    graph: &mut TypedGraph,
    way: &str,
    (attribute, body): (&str, Graph),
    ends: &BodyPorts<'_>,
) -> Result<(Vec<Node>, Vec<ValueId>), InlineError> {
    if body.inputs.len() != ends.given.len() {
        let (found, wanted) = (body.inputs.len(), ends.given.len());
        return Err(InlineError::Inputs { attribute: attribute.to_owned(), found, wanted });
    }
    adopt(graph, way, body, ends)
        .ok_or_else(|| InlineError::NoValue { attribute: attribute.to_owned() })
}

/// Adds the values of a subgraph to the outer graph; returns its nodes and outputs in terms of the outer graph.
fn adopt(
    graph: &mut TypedGraph,
    way: &str,
    body: Graph,
    ends: &BodyPorts<'_>,
) -> Option<(Vec<Node>, Vec<ValueId>)> {
    let Graph { nodes, values, inputs, captures, outputs, .. } = body;
    let mut known = vec![None; values.len()];
    let captured = captures.iter().map(|&Capture { inner, outer }| (inner, outer));
    for (inner, outer) in inputs.into_iter().zip(ends.given.iter().copied()).chain(captured) {
        *known.get_mut(inner.index())? = Some(outer);
    }
    for (output, wanted) in outputs.iter().zip(ends.wanted) {
        let is_computed = matches!(values.get(output.index())?.source, Source::Computed);
        let slot = known.get_mut(output.index())?;
        *slot = slot.or(wanted.filter(|_| is_computed));
    }
    let mut ids = Vec::with_capacity(values.len());
    for (Value { name, source, .. }, known) in values.into_iter().zip(known) {
        let name = format!("{way}/{name}");
        ids.push(match (known, source) {
            (Some(known), _) => known,
            (None, Source::Constant(tensor)) => graph.add_constant(&name, tensor),
            (None, Source::Computed | Source::Outer | Source::Input(_)) => graph.add_value(&name),
        });
    }
    let id = |inner: ValueId| ids.get(inner.index()).copied();
    let mut adopted = Vec::with_capacity(nodes.len());
    for mut node in nodes {
        node.name = format!("{way}/{}", node.name);
        for value in node.inputs.iter_mut().chain(&mut node.outputs).flatten() {
            *value = id(*value)?;
        }
        for capture in node.attrs.iter_mut().flat_map(|(_, attr)| captures_of(attr)) {
            capture.outer = id(capture.outer)?;
        }
        adopted.push(node);
    }
    let outputs = outputs.into_iter().map(id).collect::<Option<_>>()?;
    Some((adopted, outputs))
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
