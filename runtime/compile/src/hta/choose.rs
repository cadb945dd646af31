//! Chooses the nodes that a SoC supports, in parts that are as large as possible: the first step of compiling for the
//! HTA.

use std::collections::{BTreeSet, VecDeque};

use udo_hta::{Kind, Soc};

use super::lower::{Derived, Lowering};
use crate::resolve::{Control, TypedGraph};
use udo_graph::graph::{Links, NodeId, NodeReads, Origin, ValueId};

/// The chosen parts, and the nodes outside them with reasons.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The ids of the nodes of each part.
    pub(super) parts: Vec<Origin>,
    /// A reason for each unsupported node.
    pub(super) stays: Vec<String>,
}

/// Chooses the parts of a graph that a SoC supports. Nodes with the ids in `excluded`, folded nodes, and nodes of
/// branches and loops stay outside.
///
/// The parts follow from a schedule that alternates between phases of unsupported and of supported nodes; each phase
/// runs as many nodes as possible. A part is the nodes of one supported phase, so it never waits for a node outside.
pub(super) fn choose(graph: &TypedGraph, soc: &Soc, excluded: &BTreeSet<u32>) -> Choice {
    let derived = Derived::new(graph);
    let mut lowering = Lowering::new(graph, &derived);
    let mut choice = Choice::default();
    let mut kinds = Vec::with_capacity(graph.nodes.len());
    let mut depth = 0usize;
    for (id, bound) in graph.node_ids().zip(&graph.nodes) {
        let is_inner = depth > 0 || bound.control.is_some();
        depth += usize::from(bound.control.as_ref().is_some_and(Control::opens));
        depth =
            depth.saturating_sub(usize::from(bound.control.as_ref().is_some_and(Control::ends)));
        if bound.is_folded || is_inner {
            kinds.push(None);
            continue;
        }
        let kind = lowering.layer(id).and_then(|layer| {
            soc.check_layer(&layer, lowering.tensors()).map_err(|why| why.to_string())?;
            Ok(layer.op.kind())
        });
        let is_excluded = bound.node.origin.ids().any(|id| excluded.contains(&id));
        match kind {
            Ok(kind) => kinds.push(Some(kind).filter(|_| !is_excluded)),
            Err(why) => {
                let (name, op) = (&bound.node.name, &bound.node.op);
                choice.stays.push(format!("node {name:?} ({op}) {why}"));
                kinds.push(None);
            }
        }
    }
    choice.parts = phases(graph, &kinds);
    choice
}

/// Returns the nodes of each supported phase. `kinds` has the kind of each supported node's layer. A phase that only
/// reshapes or looks up values is not worth a program.
fn phases(graph: &TypedGraph, kinds: &[Option<Kind>]) -> Vec<Origin> {
    let producers = graph.producers();
    let consumers = graph.consumers();
    // The number of inputs that are not computed yet, by node.
    let mut waits: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for bound in &graph.nodes {
        let is_computed = |value: ValueId| producers.get(value).is_some_and(Option::is_some);
        waits.push(bound.node.reads().filter(|(_, value)| is_computed(*value)).count());
    }
    let kind = |id: NodeId| kinds.get(id.index()).copied().flatten();
    let mut ready: [VecDeque<NodeId>; 2] = Default::default();
    let queue = |ready: &mut [VecDeque<NodeId>; 2], id: NodeId| {
        let [unsupported, supported] = ready;
        if kind(id).is_some() { supported.push_back(id) } else { unsupported.push_back(id) }
    };
    for id in graph.node_ids().filter(|id| waits.get(id.index()) == Some(&0)) {
        queue(&mut ready, id);
    }
    let mut parts = Vec::new();
    while ready.iter().any(|queue| !queue.is_empty()) {
        for (phase, is_supported) in [false, true].into_iter().enumerate() {
            let (mut ids, mut computes) = (Origin::default(), false);
            while let Some(id) = ready.get_mut(phase).and_then(VecDeque::pop_front) {
                let Ok(bound) = graph.node(id) else { continue };
                if is_supported {
                    ids.add(&bound.node.origin);
                    computes |=
                        kind(id).is_some_and(|kind| !matches!(kind, Kind::Reshape | Kind::Lookup));
                }
                for &value in bound.node.outputs.iter().flatten() {
                    for (consumer, _) in consumers.get(value).into_iter().flatten() {
                        let Some(wait) = waits.get_mut(consumer.index()) else { continue };
                        *wait = wait.saturating_sub(1);
                        if *wait == 0 {
                            queue(&mut ready, *consumer);
                        }
                    }
                }
            }
            if computes {
                parts.push(ids);
            }
        }
    }
    parts
}
