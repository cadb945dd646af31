//! Maps from values to the nodes that produce and consume them.

use super::{Graph, GraphNode, GraphValue, NodeId, Read, ValueId};
use crate::graph::NodeReads;

/// Look-ups from a value to the nodes that produce and consume it. Each call scans the graph; a caller with many values
/// computes [`Links::producers`] or [`Links::consumers`] once.
pub trait Links {
    /// Returns the node that produces a value as its first output.
    fn producer(&self, value: ValueId) -> Option<NodeId>;

    /// Returns the node that produces each value.
    fn producers(&self) -> PerValue<Option<NodeId>>;

    /// Returns the nodes that read each value, directly or in subgraphs, and how: one entry for each read.
    fn consumers(&self) -> PerValue<Vec<(NodeId, Read)>>;
}

impl<N: GraphNode, V: GraphValue> Links for Graph<N, V> {
    fn producer(&self, value: ValueId) -> Option<NodeId> {
        let produces = |node: &N| node.node().output(0) == Some(value);
        self.nodes.iter().position(produces).map(NodeId::new)
    }

    fn producers(&self) -> PerValue<Option<NodeId>> {
        let mut producers = PerValue::filled(self, None);
        for (id, node) in self.node_ids().zip(&self.nodes) {
            for &output in node.node().outputs.iter().flatten() {
                producers.set(output, Some(id));
            }
        }
        producers
    }

    fn consumers(&self) -> PerValue<Vec<(NodeId, Read)>> {
        let mut consumers = PerValue::filled(self, Vec::new());
        for (id, node) in self.node_ids().zip(&self.nodes) {
            for (read, value) in node.node().reads() {
                if let Some(readers) = consumers.get_mut(value) {
                    readers.push((id, read));
                }
            }
        }
        consumers
    }
}

/// One `T` for each value of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerValue<T>(Vec<T>);

impl<T: Clone> PerValue<T> {
    /// Creates a map with the same entry for each value of `graph`.
    pub fn filled<N, V>(graph: &Graph<N, V>, entry: T) -> Self {
        Self(vec![entry; graph.values.len()])
    }
}

impl<T> PerValue<T> {
    /// Returns the entry of a value; `None` for a value that was added after the map was created.
    pub fn get(&self, id: ValueId) -> Option<&T> {
        self.0.get(id.index())
    }

    /// Returns the mutable entry of a value.
    pub fn get_mut(&mut self, id: ValueId) -> Option<&mut T> {
        self.0.get_mut(id.index())
    }

    /// Replaces the entry of a value. Does nothing for a value that was added after the map was created.
    pub fn set(&mut self, id: ValueId, entry: T) {
        if let Some(slot) = self.get_mut(id) {
            *slot = entry;
        }
    }

    /// Returns all values with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (ValueId, &T)> {
        self.0.iter().enumerate().map(|(index, entry)| (ValueId::new(index), entry))
    }
}
