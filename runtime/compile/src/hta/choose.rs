//! Chooses the nodes that a SoC supports, in parts that are as large as possible.

use std::collections::{BTreeSet, VecDeque};

use udo_hta::{Kind, Soc};

use super::lower::{Derived, Lowering};
use crate::resolve::{Control, TypedGraph};
use udo_graph::graph::{Links, NodeId, NodeReads, Origin};

/// The chosen parts, and the nodes outside them with reasons.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) parts: Vec<Origin>,
    pub(super) stays: Vec<String>,
}

/// Chooses the parts of a graph that a SoC supports, without nodes with the ids in `without`. A part holds consecutive
/// nodes of a schedule that alternates between unsupported and supported nodes, and runs as many nodes as possible in
/// each turn.
pub(super) fn choose(graph: &TypedGraph, soc: &Soc, without: &BTreeSet<u32>) -> Choice {
    let derived = Derived::new(graph);
    let mut lowering = Lowering::new(graph, &derived);
    let mut choice = Choice::default();
    let mut takes = Vec::with_capacity(graph.nodes.len());
    let mut depth = 0usize;
    for (id, bound) in graph.node_ids().zip(&graph.nodes) {
        let is_inner = depth > 0 || bound.control.is_some();
        depth += usize::from(bound.control.as_ref().is_some_and(Control::opens));
        depth =
            depth.saturating_sub(usize::from(bound.control.as_ref().is_some_and(Control::ends)));
        if bound.is_folded || is_inner {
            takes.push(None);
            continue;
        }
        let kind = lowering.layer(id).and_then(|layer| {
            soc.check_layer(&layer, lowering.tensors()).map_err(|why| why.to_string())?;
            Ok(layer.op.kind())
        });
        let is_without = bound.node.origin.ids().any(|id| without.contains(&id));
        match kind {
            Ok(kind) => takes.push(Some(kind).filter(|_| !is_without)),
            Err(why) => {
                let (name, op) = (&bound.node.name, &bound.node.op);
                choice.stays.push(format!("node {name:?} ({op}) {why}"));
                takes.push(None);
            }
        }
    }
    choice.parts = phases(graph, &takes);
    choice
}

/// Groups the supported nodes that can run together.
fn phases(graph: &TypedGraph, takes: &[Option<Kind>]) -> Vec<Origin> {
    let makers = graph.producers();
    let readers = graph.consumers();
    let mut waits: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for bound in &graph.nodes {
        let made =
            bound.node.reads().filter(|(_, value)| makers.get(*value).is_some_and(Option::is_some));
        waits.push(made.count());
    }
    let is_taken = |id: NodeId| takes.get(id.index()).copied().flatten();
    let mut ready: [VecDeque<NodeId>; 2] = Default::default();
    let queue = |ready: &mut [VecDeque<NodeId>; 2], id: NodeId| {
        let [rest, parts] = ready;
        if is_taken(id).is_some() { parts.push_back(id) } else { rest.push_back(id) }
    };
    for id in graph.node_ids().filter(|id| waits.get(id.index()) == Some(&0)) {
        queue(&mut ready, id);
    }
    let mut found = Vec::new();
    while ready.iter().any(|queue| !queue.is_empty()) {
        for side in 0..2 {
            let (mut ids, mut computes) = (Origin::default(), false);
            while let Some(id) = ready.get_mut(side).and_then(VecDeque::pop_front) {
                let Ok(bound) = graph.node(id) else { continue };
                if side == 1 {
                    ids.add(&bound.node.origin);
                    computes |= is_taken(id)
                        .is_some_and(|kind| !matches!(kind, Kind::Reshape | Kind::Lookup));
                }
                for &value in bound.node.outputs.iter().flatten() {
                    for (reader, _) in readers.get(value).into_iter().flatten() {
                        let Some(wait) = waits.get_mut(reader.index()) else { continue };
                        *wait = wait.saturating_sub(1);
                        if *wait == 0 {
                            queue(&mut ready, *reader);
                        }
                    }
                }
            }
            if computes {
                found.push(ids);
            }
        }
    }
    found
}
