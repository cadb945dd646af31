//! The producers and consumers of each value of a graph that is being rewritten.

use super::Extents;
use crate::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{NodeId, NodeReads, ValueId};

/// The producers and consumers of each value.
#[derive(Debug)]
pub(super) struct Uses {
    /// The node that computes each value as its first output.
    producers: Vec<Option<NodeId>>,
    /// The node that computes each value as any output.
    any_producers: Vec<Option<NodeId>>,
    /// The nodes whose epilogue may compute each value.
    hosts: Vec<Vec<NodeId>>,
    readers: Vec<Readers>,
    /// Whether a folded node (one that is computed before the run) refers to the value. It does not count as a
    /// consumer.
    has_folded_reader: Vec<bool>,
    extents: Extents,
}

/// A node that reads a value; `None` is the caller.
type Reader = Option<NodeId>;

/// The consumers of a value. Most values have one, for which no list is allocated.
#[derive(Clone, Debug, Default)]
struct Readers {
    /// The first consumer, if any.
    first: Option<Reader>,
    others: Vec<Reader>,
}

impl Readers {
    fn push(&mut self, reader: Reader) {
        match self.first {
            None => self.first = Some(reader),
            Some(_) => self.others.push(reader),
        }
    }

    fn remove(&mut self, node: NodeId) {
        self.others.retain(|reader| *reader != Some(node));
        if self.first == Some(Some(node)) {
            self.first = self.others.pop();
        }
    }

    fn iter(&self) -> impl Iterator<Item = Reader> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

impl Uses {
    pub(super) fn new(graph: &TypedGraph, extents: Extents) -> Self {
        let count = graph.values.len();
        let (mut producers, mut readers) = (vec![None; count], vec![Readers::default(); count]);
        let (mut any_producers, mut has_folded_reader) = (vec![None; count], vec![false; count]);
        for (id, bound) in graph.node_ids().zip(&graph.nodes) {
            let output = bound.node.output(0);
            if let Some(producer) = output.and_then(|v| producers.get_mut(v.index())) {
                *producer = Some(id);
            }
            for value in bound.node.outputs.iter().flatten() {
                if let Some(producer) = any_producers.get_mut(value.index()) {
                    *producer = Some(id);
                }
            }
            // A folded node may read the extents of a value that a run computes; no fusion changes those.
            for (_, value) in bound.node.reads() {
                let (Some(readers), Some(has_folded_reader)) =
                    (readers.get_mut(value.index()), has_folded_reader.get_mut(value.index()))
                else {
                    continue;
                };
                if bound.is_folded { *has_folded_reader = true } else { readers.push(Some(id)) }
            }
        }
        // The caller reads outputs.
        for value in &graph.outputs {
            if let Some(readers) = readers.get_mut(value.index()) {
                readers.push(None);
            }
        }
        let hosts = vec![Vec::new(); count];
        Self { producers, any_producers, hosts, readers, has_folded_reader, extents }
    }

    /// Returns the extents that are equal in every run.
    pub(super) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// Returns the node whose first output is the value.
    pub(super) fn producer(&self, value: ValueId) -> Option<NodeId> {
        self.producers.get(value.index()).copied().flatten()
    }

    /// Returns the only node that reads the value.
    pub(super) fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        let readers = self.readers.get(value.index())?;
        readers.first.flatten().filter(|_| readers.others.is_empty())
    }

    /// Returns whether the value has one consumer. A value that a rewrite added is not tracked and has one.
    pub(super) fn has_one_reader(&self, value: ValueId) -> bool {
        self.readers.get(value.index()).is_none_or(|readers| readers.count() == 1)
    }

    /// Returns whether exactly these nodes read the value.
    pub(super) fn are_readers(&self, value: ValueId, nodes: &[NodeId]) -> bool {
        let Some(readers) = self.readers.get(value.index()) else { return nodes.is_empty() };
        let reads = |node: &NodeId| readers.iter().any(|reader| reader == Some(*node));
        readers.count() == nodes.len() && nodes.iter().all(reads)
    }

    /// Returns the node that has the value as any output.
    pub(super) fn any_producer(&self, value: ValueId) -> Option<NodeId> {
        self.any_producers.get(value.index()).copied().flatten()
    }

    /// Returns the nodes whose epilogue may compute the value.
    pub(super) fn hosts(&self, value: ValueId) -> &[NodeId] {
        self.hosts.get(value.index()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn set_hosts(&mut self, value: ValueId, hosts: Vec<NodeId>) {
        if let Some(slot) = self.hosts.get_mut(value.index()) {
            *slot = hosts;
        }
    }

    /// Returns whether only nodes for which `contains` holds refer to the value.
    pub(super) fn is_within(&self, value: ValueId, contains: impl Fn(NodeId) -> bool) -> bool {
        let mut readers = self.readers.get(value.index()).into_iter().flat_map(Readers::iter);
        self.has_folded_reader.get(value.index()) != Some(&true)
            && readers.all(|reader| reader.is_some_and(&contains))
    }

    /// Replaces the uses of node `id`, which was `old`.
    pub(super) fn replace(&mut self, id: NodeId, old: &BoundNode, new: Option<&BoundNode>) {
        for (_, value) in old.node.reads() {
            if let Some(readers) = self.readers.get_mut(value.index()) {
                readers.remove(id);
            }
        }
        for (_, value) in new.iter().flat_map(|new| new.node.reads()) {
            // A value that the rewrite added is not tracked, because nothing asks for its consumers.
            if let Some(readers) = self.readers.get_mut(value.index()) {
                readers.push(Some(id));
            }
        }
    }
}
