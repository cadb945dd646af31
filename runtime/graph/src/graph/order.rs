//! An order in which a graph's nodes can run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Graph, GraphError, GraphNode, GraphValue};
use crate::graph::{Links, NodeReads};

/// The places of all nodes, producers before consumers, otherwise as they stand.
pub(super) fn topological<N: GraphNode, V: GraphValue>(
    graph: &Graph<N, V>,
) -> Result<Vec<usize>, GraphError> {
    let sources = sources(graph);
    let mut waits_for: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); sources.len()];
    for (reader, nodes) in sources.iter().enumerate() {
        for &node in nodes {
            readers[node].push(reader);
        }
    }

    let mut order = Vec::with_capacity(sources.len());
    let mut ready: BinaryHeap<_> =
        (0..sources.len()).filter(|&at| waits_for[at] == 0).map(Reverse).collect();
    while let Some(Reverse(at)) = ready.pop() {
        order.push(at);
        for &reader in &readers[at] {
            waits_for[reader] -= 1;
            if waits_for[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if order.len() == sources.len() {
        return Ok(order);
    }
    Err(GraphError::Cycle { nodes: cycle(graph, &sources, &waits_for) })
}

/// For each node the places of those that it reads from, one for each reading.
fn sources<N: GraphNode, V: GraphValue>(graph: &Graph<N, V>) -> Vec<Vec<usize>> {
    let producers = graph.producers();
    let place = |(_, value)| producers.get(value).copied().flatten().map(super::NodeId::index);
    graph.nodes.iter().map(|node| node.node().reads().filter_map(place).collect()).collect()
}

/// The names along one cycle; every node that still waits reads from another that does.
fn cycle<N: GraphNode, V>(
    graph: &Graph<N, V>,
    sources: &[Vec<usize>],
    waits_for: &[usize],
) -> Vec<String> {
    let waiting = |at: &usize| waits_for[*at] > 0;
    let mut seen_at = vec![None; sources.len()];
    let mut path = Vec::new();
    let mut next = (0..sources.len()).find(waiting);
    while let Some(at) = next {
        if let Some(start) = seen_at[at] {
            path.drain(..start);
            break;
        }
        seen_at[at] = Some(path.len());
        path.push(at);
        next = sources[at].iter().copied().find(waiting);
    }
    path.iter().rev().filter_map(|&at| graph.nodes.get(at)).map(|n| n.node().name.clone()).collect()
}
