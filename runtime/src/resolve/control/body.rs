//! Subgraphs that become part of the graph around them.

use super::Parent;
use crate::graph::{Attr, Capture, Graph, Node, Source, Value, ValueId};
use crate::registry::Registry;
use crate::resolve::{Binding, ResolveError, TypedGraph};

/// What a subgraph is given, and what becomes of what it gives.
#[derive(Default)]
pub(super) struct Ends<'a> {
    /// Its inputs.
    pub(super) given: &'a [ValueId],
    /// Values that nodes of the subgraph are to make for its outputs, where they can.
    pub(super) wanted: &'a [Option<ValueId>],
}

impl Registry {
    /// Adds the nodes of a subgraph; its outputs as values of the outer graph. What is put in for the nodes in it is for
    /// them alone, as they may not run.
    pub(super) fn bind_body(
        &mut self,
        binding: &mut Binding<'_>,
        parent: &Parent,
        body: (String, Graph),
        ends: &Ends<'_>,
    ) -> Result<Vec<ValueId>, ResolveError> {
        let outside = binding.layouts.clone();
        let (nodes, outputs) = open_body(&mut binding.graph, parent, body, ends)?;
        binding.depth += 1;
        for node in nodes {
            self.bind_next(binding, node)?;
        }
        binding.depth -= 1;
        binding.layouts.leave(outside);
        Ok(outputs)
    }
}

/// The nodes of a subgraph and its outputs, in the words of the graph around it, which gets its values.
pub(super) fn open_body(
    graph: &mut TypedGraph,
    parent: &Parent,
    (attribute, body): (String, Graph),
    ends: &Ends<'_>,
) -> Result<(Vec<Node>, Vec<ValueId>), ResolveError> {
    if body.inputs.len() != ends.given.len() {
        let (found, wanted) = (body.inputs.len(), ends.given.len());
        return Err(parent.refuse(format!(
            "its {attribute:?} has {found} inputs, wanted {wanted} as the node gives them"
        )));
    }
    let way = format!("{}/{attribute}", parent.node.name);
    adopt(graph, &way, body, ends)
        .ok_or_else(|| parent.refuse(format!("its {attribute:?} names no value")))
}

/// Adds the values of a subgraph to the graph around it; its nodes and outputs in the words of that.
fn adopt(
    graph: &mut TypedGraph,
    way: &str,
    body: Graph,
    ends: &Ends<'_>,
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

/// What the graphs in an attribute capture.
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
