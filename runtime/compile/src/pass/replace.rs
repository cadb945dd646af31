//! Replaces several nodes by one: applies the [`Replacement`]s that pattern passes return.

use std::collections::BTreeSet;

use udo_api::{Core, Param};

use super::Candidate;
use super::uses::Uses;
use crate::compiler::Compiler;
use crate::resolve::{self, TypedGraph};
use udo_graph::graph::{Attr, NEWEST, Node, NodeId, NodeReads, ValueId};
use udo_graph::memory::Tensor;

/// A node of a built-in operator that replaces a candidate and the nodes between the new node's inputs and the
/// candidate.
#[derive(Debug)]
pub struct Replacement {
    /// The operator's domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The operator.
    pub op: &'static str,
    /// Its inputs.
    pub inputs: Vec<Operand>,
    /// Its attributes.
    pub attrs: Vec<(&'static str, Attr)>,
    /// The node whose name the new node gets; the candidate if `None`.
    pub named_after: Option<NodeId>,
    /// Inner values that may have other consumers; their producers stay for those.
    pub shared: Vec<ValueId>,
}

impl Replacement {
    /// Returns a node without attributes.
    pub(crate) fn new(domain: &'static str, op: &'static str, inputs: Vec<Operand>) -> Self {
        let (attrs, named_after, shared) = (Vec::new(), None, Vec::new());
        Self { domain, op, inputs, attrs, named_after, shared }
    }

    /// Returns the candidate's own node, to be changed.
    pub(crate) fn from_node(node: &Candidate<'_>) -> Option<Self> {
        let (bound, schema) = (node.node(), node.node().op.schema());
        let inputs = bound.node.inputs.iter();
        let inputs = inputs.map(|input| input.map_or(Operand::Absent, Operand::Value)).collect();
        let attr = |(name, attr): &(String, Attr)| {
            let mut names = schema.params().iter().map(Param::attribute_name);
            Some((names.find(|known| known == name)?, attr.clone()))
        };
        let attrs = bound.node.attrs.iter().map(attr).collect::<Option<_>>()?;
        Some(Self { attrs, ..Self::new(schema.domain(), schema.name(), inputs) })
    }

    /// Sets an attribute.
    pub(crate) fn set(&mut self, name: &'static str, attr: Attr) {
        self.attrs.retain(|(known, _)| *known != name);
        self.attrs.push((name, attr));
    }
}

/// An input of a replacing node.
#[derive(Debug)]
pub enum Operand {
    /// The input is omitted.
    Absent,
    /// A value of the graph.
    Value(ValueId),
    /// A new constant.
    Constant(Tensor),
}

/// Replaces node `id`, and adds the nodes that are no longer needed to `removed`. Changes nothing if another node reads
/// an inner value, or if `core` has no kernel that accepts the new node.
pub(super) fn apply(
    graph: &mut TypedGraph,
    uses: &mut Uses,
    compiler: &Compiler<'_>,
    core: Core,
    (id, removed): (NodeId, &mut BTreeSet<NodeId>),
    replacement: Replacement,
) -> bool {
    let Some(inner) = inner_nodes(graph, uses, id, &replacement) else { return false };
    let Ok(root) = graph.node(id) else { return false };
    let [Some(output)] = root.node.outputs[..] else { return false };
    let named_after = replacement.named_after.and_then(|id| graph.node(id).ok()).unwrap_or(root);
    let name = named_after.node.name.clone();
    let (mut origin, pin) = (root.node.origin.clone(), root.node.pin);
    for bound in inner.iter().filter_map(|&id| graph.node(id).ok()) {
        if bound.node.pin != pin {
            return false;
        }
        origin.add(&bound.node.origin);
    }
    let Replacement { domain, op, inputs, attrs, .. } = replacement;
    let values = graph.values.len();
    let inputs = inputs.into_iter().enumerate().map(|(port, operand)| match operand {
        Operand::Absent => None,
        Operand::Value(value) => Some(value),
        Operand::Constant(tensor) => Some(graph.add_constant(&format!("{name}.{port}"), tensor)),
    });
    let inputs = inputs.collect();
    let attrs = attrs.into_iter().map(|(name, attr)| (name.to_owned(), attr)).collect();
    let node = Node {
        name: name.clone(),
        domain: domain.to_owned(),
        inputs,
        attrs,
        origin,
        pin,
        ..Node::new(op, NEWEST, &[], &[output])
    };
    let Some(bound) = resolve::replacement(compiler, graph, node, core) else {
        graph.values.truncate(values);
        return false;
    };
    for &node in &inner {
        if let Ok(old) = graph.node(node) {
            uses.replace(node, old, None);
        }
    }
    if let Some(slot) = graph.nodes.get_mut(id.index()) {
        uses.replace(id, slot, Some(&bound));
        *slot = bound;
    }
    removed.extend(inner);
    true
}

/// Returns the nodes between the new node's inputs and the candidate, if nothing else reads their outputs. Nodes that
/// compute integers from extents or shared values stay for their other consumers.
fn inner_nodes(
    graph: &TypedGraph,
    uses: &Uses,
    root: NodeId,
    replacement: &Replacement,
) -> Option<BTreeSet<NodeId>> {
    let is_input = |value: ValueId| {
        let reads = |operand: &Operand| matches!(operand, Operand::Value(input) if *input == value);
        replacement.inputs.iter().any(reads) || graph.known(Some(value)).is_some()
    };
    let (mut inner, mut unvisited) = (BTreeSet::<NodeId>::new(), vec![root]);
    while let Some(id) = unvisited.pop() {
        for (_, value) in graph.node(id).ok()?.node.reads().filter(|(_, value)| !is_input(*value)) {
            // A value without a producer is a graph input, which the new node does not read: no match.
            let producer = uses.any_producer(value)?;
            if inner.insert(producer) {
                unvisited.push(producer);
            }
        }
    }
    // All of them must run together.
    let first = inner.first().map_or(root, |id| *id);
    let between = graph.nodes.get(first.index()..root.index())?;
    if between.iter().any(|bound| bound.control.is_some()) {
        return None;
    }
    let is_replaced = |inner: &BTreeSet<NodeId>, id: NodeId| id == root || inner.contains(&id);
    let outputs =
        |id: NodeId| graph.node(id).into_iter().flat_map(|b| b.node.outputs.iter().flatten());
    // Nodes are in topological order, so nodes that stay are visited before the nodes that they read.
    for id in inner.clone().into_iter().rev() {
        if outputs(id).all(|&value| uses.is_within(value, |id| is_replaced(&inner, id))) {
            continue;
        }
        let may_stay =
            |value: &ValueId| uses.extents().are_ints(*value) || replacement.shared.contains(value);
        if !outputs(id).all(may_stay) {
            return None;
        }
        inner.remove(&id);
    }
    Some(inner)
}

/// Removes nodes from the graph.
pub(super) fn remove(graph: &mut TypedGraph, removed: &BTreeSet<NodeId>) {
    let mut id = 0..;
    graph.nodes.retain(|_| !id.next().is_some_and(|at| removed.contains(&NodeId::new(at))));
}
