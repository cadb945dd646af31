//! Who makes and who reads each value of a graph that is being rewritten.

use super::Extents;
use crate::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{NodeId, NodeReads, ValueId};

/// Who makes and who reads each value.
#[derive(Debug)]
pub(super) struct Uses {
    producers: Vec<Option<NodeId>>,
    /// The nodes that make them, as whichever output.
    makers: Vec<Option<NodeId>>,
    /// The nodes of whose epilogues they are the result.
    hosts: Vec<Vec<NodeId>>,
    readers: Vec<Readers>,
    /// Which of them folded nodes read, which are no readers but name them.
    named: Vec<bool>,
    extents: Extents,
}

/// A node that reads a value; nothing stands for the caller.
type Reader = Option<NodeId>;

/// Who reads a value. Most values have one reader, for whom there is no list.
#[derive(Clone, Debug, Default)]
struct Readers {
    /// Nothing where there is none.
    one: Option<Reader>,
    others: Vec<Reader>,
}

impl Readers {
    fn push(&mut self, reader: Reader) {
        match self.one {
            None => self.one = Some(reader),
            Some(_) => self.others.push(reader),
        }
    }

    fn remove(&mut self, node: NodeId) {
        self.others.retain(|reader| *reader != Some(node));
        if self.one == Some(Some(node)) {
            self.one = self.others.pop();
        }
    }

    fn iter(&self) -> impl Iterator<Item = Reader> {
        self.one.into_iter().chain(self.others.iter().copied())
    }

    fn count(&self) -> usize {
        usize::from(self.one.is_some()) + self.others.len()
    }
}

impl Uses {
    pub(super) fn of(graph: &TypedGraph, extents: Extents) -> Self {
        let count = graph.values.len();
        let (mut producers, mut readers) = (vec![None; count], vec![Readers::default(); count]);
        let (mut makers, mut named) = (vec![None; count], vec![false; count]);
        for (id, bound) in graph.node_ids().zip(&graph.nodes) {
            let made = bound.node.output(0);
            if let Some(producer) = made.and_then(|v| producers.get_mut(v.index())) {
                *producer = Some(id);
            }
            for value in bound.node.outputs.iter().flatten() {
                if let Some(maker) = makers.get_mut(value.index()) {
                    *maker = Some(id);
                }
            }
            // One that is folded may read the extents of what is only known in the run, which no fusion changes.
            for (_, value) in bound.node.reads() {
                let (Some(readers), Some(named)) =
                    (readers.get_mut(value.index()), named.get_mut(value.index()))
                else {
                    continue;
                };
                if bound.is_folded { *named = true } else { readers.push(Some(id)) }
            }
        }
        // The caller reads outputs.
        for value in &graph.outputs {
            if let Some(readers) = readers.get_mut(value.index()) {
                readers.push(None);
            }
        }
        let hosts = vec![Vec::new(); count];
        Self { producers, makers, hosts, readers, named, extents }
    }

    /// Which extents are equal in every run.
    pub(super) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// The node whose first output the value is.
    pub(super) fn producer(&self, value: ValueId) -> Option<NodeId> {
        self.producers.get(value.index()).copied().flatten()
    }

    pub(super) fn only_reader(&self, value: ValueId) -> Option<NodeId> {
        let readers = self.readers.get(value.index())?;
        readers.one.flatten().filter(|_| readers.others.is_empty())
    }

    /// Whether the value has one reader; so has one that a rewrite added, of which there is no list.
    pub(super) fn has_one_reader(&self, value: ValueId) -> bool {
        self.readers.get(value.index()).is_none_or(|readers| readers.count() == 1)
    }

    /// Whether these nodes read the value, and nobody else.
    pub(super) fn are_readers(&self, value: ValueId, nodes: &[NodeId]) -> bool {
        let Some(readers) = self.readers.get(value.index()) else { return nodes.is_empty() };
        let reads = |node: &NodeId| readers.iter().any(|reader| reader == Some(*node));
        readers.count() == nodes.len() && nodes.iter().all(reads)
    }

    pub(super) fn maker(&self, value: ValueId) -> Option<NodeId> {
        self.makers.get(value.index()).copied().flatten()
    }

    pub(super) fn hosts(&self, value: ValueId) -> &[NodeId] {
        self.hosts.get(value.index()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn set_hosts(&mut self, value: ValueId, hosts: Vec<NodeId>) {
        if let Some(slot) = self.hosts.get_mut(value.index()) {
            *slot = hosts;
        }
    }

    /// Whether nodes for which `is_one` holds are all that know of the value.
    pub(super) fn is_within(&self, value: ValueId, is_one: impl Fn(NodeId) -> bool) -> bool {
        let mut readers = self.readers.get(value.index()).into_iter().flat_map(Readers::iter);
        self.named.get(value.index()) != Some(&true)
            && readers.all(|reader| reader.is_some_and(&is_one))
    }

    /// Puts `new` in the place of node `id`, which was `old`.
    pub(super) fn replace(&mut self, id: NodeId, old: &BoundNode, new: Option<&BoundNode>) {
        for (_, value) in old.node.reads() {
            if let Some(readers) = self.readers.get_mut(value.index()) {
                readers.remove(id);
            }
        }
        for (_, value) in new.iter().flat_map(|new| new.node.reads()) {
            // A value that the rewrite added has no list, as nobody asks who reads it.
            if let Some(readers) = self.readers.get_mut(value.index()) {
                readers.push(Some(id));
            }
        }
    }
}
