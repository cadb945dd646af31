//! One node in the place of several.

use std::collections::BTreeSet;

use udo_api::{Core, Param};

use super::Candidate;
use super::uses::Uses;
use crate::compiler::Compiler;
use crate::resolve::{self, TypedGraph};
use udo_graph::graph::{Attr, NEWEST, Node, NodeId, NodeReads, ValueId};
use udo_graph::memory::Tensor;

/// A node of a built-in operator that makes of its inputs what the candidate makes of them by way of other nodes, which are
/// not needed then.
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
    /// The node whose name it has; the candidate, where nothing is said.
    pub named_after: Option<NodeId>,
    /// Values before the candidate that others may read as well: what makes them stays for those.
    pub shared: Vec<ValueId>,
}

impl Replacement {
    /// A node without attributes.
    pub(crate) fn new(domain: &'static str, op: &'static str, inputs: Vec<Operand>) -> Self {
        let (attrs, named_after, shared) = (Vec::new(), None, Vec::new());
        Self { domain, op, inputs, attrs, named_after, shared }
    }

    /// The candidate's own node once more, to be changed.
    pub(crate) fn of(node: &Candidate<'_>) -> Option<Self> {
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

/// An input of a node that is put in.
#[derive(Debug)]
pub enum Operand {
    /// It is left out.
    Absent,
    /// A value of the graph.
    Value(ValueId),
    /// A constant that is new.
    Constant(Tensor),
}

/// Puts what was found for node `id` in its place, and notes in `gone` the nodes that are not needed any more. Leaves all as
/// it is where somebody else reads what these make, or where `core` has no kernel that takes the new node.
pub(super) fn apply(
    graph: &mut TypedGraph,
    uses: &mut Uses,
    compiler: &Compiler<'_>,
    core: Core,
    (id, gone): (NodeId, &mut BTreeSet<NodeId>),
    replacement: Replacement,
) -> bool {
    let Some(inside) = inside(graph, uses, id, &replacement) else { return false };
    let Ok(root) = graph.node(id) else { return false };
    let [Some(output)] = root.node.outputs[..] else { return false };
    let named_after = replacement.named_after.and_then(|id| graph.node(id).ok()).unwrap_or(root);
    let name = named_after.node.name.clone();
    let (mut origin, pin) = (root.node.origin.clone(), root.node.pin);
    for bound in inside.iter().filter_map(|&id| graph.node(id).ok()) {
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
    for &node in &inside {
        if let Ok(old) = graph.node(node) {
            uses.replace(node, old, None);
        }
    }
    if let Some(slot) = graph.nodes.get_mut(id.index()) {
        uses.replace(id, slot, Some(&bound));
        *slot = bound;
    }
    gone.extend(inside);
    true
}

/// The nodes by which the candidate comes from the new node's inputs, if nobody else reads what they make. What computes
/// integers of extents, or values that may be shared, stays for others who read those.
fn inside(
    graph: &TypedGraph,
    uses: &Uses,
    root: NodeId,
    replacement: &Replacement,
) -> Option<BTreeSet<NodeId>> {
    let is_input = |value: ValueId| {
        let is = |operand: &Operand| matches!(operand, Operand::Value(input) if *input == value);
        replacement.inputs.iter().any(is) || graph.known(Some(value)).is_some()
    };
    let (mut inside, mut open) = (BTreeSet::<NodeId>::new(), vec![root]);
    while let Some(id) = open.pop() {
        for (_, value) in graph.node(id).ok()?.node.reads().filter(|(_, value)| !is_input(*value)) {
            // An input of the graph would be read by the new node.
            let maker = uses.maker(value)?;
            if inside.insert(maker) {
                open.push(maker);
            }
        }
    }
    // All of them have to run together.
    let first = inside.first().map_or(root, |id| *id);
    let between = graph.nodes.get(first.index()..root.index())?;
    if between.iter().any(|bound| bound.control.is_some()) {
        return None;
    }
    let is_one = |inside: &BTreeSet<NodeId>, id: NodeId| id == root || inside.contains(&id);
    let made =
        |id: NodeId| graph.node(id).into_iter().flat_map(|b| b.node.outputs.iter().flatten());
    // A node comes behind those that it reads from, so those that stay for it are met after it.
    for id in inside.clone().into_iter().rev() {
        if made(id).all(|&value| uses.is_within(value, |id| is_one(&inside, id))) {
            continue;
        }
        let may_stay =
            |value: &ValueId| uses.extents().are_ints(*value) || replacement.shared.contains(value);
        if !made(id).all(may_stay) {
            return None;
        }
        inside.remove(&id);
    }
    Some(inside)
}

/// Takes nodes out of the graph.
pub(super) fn remove(graph: &mut TypedGraph, gone: &BTreeSet<NodeId>) {
    let mut id = 0..;
    graph.nodes.retain(|_| !id.next().is_some_and(|at| gone.contains(&NodeId::at(at))));
}
