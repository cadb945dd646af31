//! Pins the nodes that the user or the model's file has run on a core.

use udo_api::Core;
use udo_graph::graph::{Graph, number_nodes, pin_nodes};

use crate::options::{Affinity, AffinityError};

/// The cores that nodes are pinned to, by the numbers of pins.
pub fn pinned(affinity: &[Affinity]) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    for Affinity { core, .. } in affinity {
        if !cores.contains(core) {
            cores.push(*core);
        }
    }
    cores
}

/// Pins the nodes of a graph, unless that was done before; gives what its file and the user say, in this order.
///
/// # Errors
/// There are no such nodes, or the file says no core.
pub fn pin(graph: &mut Graph, user: &[Affinity]) -> Result<Vec<Affinity>, AffinityError> {
    let own: Result<Vec<Affinity>, _> = graph.affinity.iter().map(|text| text.parse()).collect();
    let all = [own?, user.to_vec()].concat();
    let cores = pinned(&all);
    let pin = |of: &Affinity| {
        let at = cores.iter().position(|core| *core == of.core).unwrap_or_default();
        (of.of.clone(), u16::try_from(at).unwrap_or(u16::MAX))
    };
    number_nodes(graph);
    if graph.nodes.iter().all(|node| node.pin.is_none()) {
        pin_nodes(graph, &all.iter().map(pin).collect::<Vec<_>>())?;
    }
    Ok(all)
}
