//! An order in which a graph's nodes can run (Kahn's algorithm), and the cycle that prevents one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Graph, GraphError, GraphNode, GraphValue};
use crate::graph::{Links, NodeReads};

/// Returns the indices of all nodes, producers before consumers. Nodes that do not depend on each other keep their order.
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
        (0..sources.len()).filter(|&node| waits_for[node] == 0).map(Reverse).collect();
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &reader in &readers[node] {
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

/// Returns, for each node, the indices of the nodes that produce what it reads: one entry for each read.
fn sources<N: GraphNode, V: GraphValue>(graph: &Graph<N, V>) -> Vec<Vec<usize>> {
    let producers = graph.producers();
    let source = |(_, value)| producers.get(value).copied().flatten().map(super::NodeId::index);
    graph.nodes.iter().map(|node| node.node().reads().filter_map(source).collect()).collect()
}

/// Returns the names of the nodes of one cycle. Every node that still waits reads from another waiting node, so following
/// these reads ends in a cycle.
fn cycle<N: GraphNode, V>(
    graph: &Graph<N, V>,
    sources: &[Vec<usize>],
    waits_for: &[usize],
) -> Vec<String> {
    let is_waiting = |node: &usize| waits_for[*node] > 0;
    let mut path_index = vec![None; sources.len()];
    let mut path = Vec::new();
    let mut next = (0..sources.len()).find(is_waiting);
    while let Some(node) = next {
        if let Some(start) = path_index[node] {
            path.drain(..start);
            break;
        }
        path_index[node] = Some(path.len());
        path.push(node);
        next = sources[node].iter().copied().find(is_waiting);
    }
    let nodes = path.iter().rev().filter_map(|&node| graph.nodes.get(node));
    nodes.map(|node| node.node().name.clone()).collect()
}
