//! Pins nodes to the cores that the user or the model's file states. A pin is an index into the list of these cores,
//! which nodes store instead of the core.

use udo_api::Core;
use udo_graph::graph::{Graph, number_nodes, pin_nodes};

use crate::options::{Affinity, AffinityError};

/// Returns the cores that nodes are pinned to, indexed by pin.
pub fn pinned(affinity: &[Affinity]) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    for Affinity { core, .. } in affinity {
        if !cores.contains(core) {
            cores.push(*core);
        }
    }
    cores
}

/// Pins the nodes of a graph that are not pinned yet. Returns the affinities of the graph's file, followed by the
/// user's.
///
/// # Errors
/// An affinity matches no node, or the file states an unknown core.
pub fn pin(graph: &mut Graph, user: &[Affinity]) -> Result<Vec<Affinity>, AffinityError> {
    let from_file: Result<Vec<Affinity>, _> =
        graph.affinity.iter().map(|text| text.parse()).collect();
    let affinities = [from_file?, user.to_vec()].concat();
    let cores = pinned(&affinities);
    let pin = |affinity: &Affinity| {
        let index = cores.iter().position(|core| *core == affinity.core).unwrap_or_default();
        (affinity.of.clone(), u16::try_from(index).unwrap_or(u16::MAX))
    };
    number_nodes(graph);
    if graph.nodes.iter().all(|node| node.pin.is_none()) {
        pin_nodes(graph, &affinities.iter().map(pin).collect::<Vec<_>>())?;
    }
    Ok(affinities)
}
