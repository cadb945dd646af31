//! What leads from values to nodes.

use super::{Graph, GraphNode, GraphValue, NodeId, Read, ValueId};

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// The node that makes each value.
    pub fn producers(&self) -> PerValue<Option<NodeId>> {
        let mut producers = PerValue::filled(self, None);
        for (id, node) in self.node_ids().zip(&self.nodes) {
            for &output in node.node().outputs.iter().flatten() {
                producers.set(output, Some(id));
            }
        }
        producers
    }

    /// The nodes that read each value, themselves or in subgraphs, and as what; once for each time.
    pub fn consumers(&self) -> PerValue<Vec<(NodeId, Read)>> {
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
    /// The same `T` for each value of `graph`.
    pub fn filled<N, V>(graph: &Graph<N, V>, with: T) -> Self {
        Self(vec![with; graph.values.len()])
    }
}

impl<T> PerValue<T> {
    /// What is kept for this value; nothing if it came after the list was made.
    pub fn get(&self, id: ValueId) -> Option<&T> {
        self.0.get(id.index())
    }

    /// What is kept for this value, to be changed.
    pub fn get_mut(&mut self, id: ValueId) -> Option<&mut T> {
        self.0.get_mut(id.index())
    }

    /// Keeps `with` for this value, if it is one of the list's.
    pub fn set(&mut self, id: ValueId, with: T) {
        if let Some(slot) = self.get_mut(id) {
            *slot = with;
        }
    }

    /// All of them, with the values that they are kept for.
    pub fn iter(&self) -> impl Iterator<Item = (ValueId, &T)> {
        self.0.iter().enumerate().map(|(index, kept)| (ValueId::at(index), kept))
    }
}
