//! Edits of graphs. Each either leaves the graph valid or fails without a change. A value that a subgraph captures counts
//! as read by the subgraph's node.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Graph, GraphError, GraphNode, GraphValue, Node, NodeId, PerValue, Source, ValueId,
    subgraphs_mut,
};
use crate::graph::NodeReads;

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// Replaces a node by `node` and returns the replaced one.
    ///
    /// # Errors
    /// Fails if the graph has no such node or would become invalid; it is not changed then.
    pub fn replace(&mut self, id: NodeId, node: N) -> Result<N, GraphError> {
        let mut swapped = node;
        self.swap(id, &mut swapped)?;
        if let Err(error) = self.verify() {
            self.swap(id, &mut swapped)?;
            return Err(error);
        }
        Ok(swapped)
    }

    fn swap(&mut self, id: NodeId, other: &mut N) -> Result<(), GraphError> {
        let count = self.nodes.len();
        let node = self.nodes.get_mut(id.index()).ok_or(GraphError::NoSuchNode { id, count })?;
        std::mem::swap(node, other);
        Ok(())
    }

    /// Inserts `node` before the node with the id `before`, or at the end if `before` is the number of nodes. The ids of
    /// later nodes increase by one.
    ///
    /// # Errors
    /// Fails if the graph has no such node or would become invalid; it is not changed then.
    pub fn insert(&mut self, before: NodeId, node: N) -> Result<(), GraphError> {
        let count = self.nodes.len();
        if before.index() > count {
            return Err(GraphError::NoSuchNode { id: before, count });
        }
        self.nodes.insert(before.index(), node);
        self.verify().inspect_err(|_| {
            self.nodes.remove(before.index());
        })
    }

    /// Removes a node whose outputs are not read. The ids of later nodes decrease by one.
    ///
    /// # Errors
    /// Fails if the graph has no such node or an output of it is read; the graph is not changed then.
    pub fn remove(&mut self, id: NodeId) -> Result<N, GraphError> {
        self.node(id)?;
        let node = self.nodes.remove(id.index());
        if let Err(error) = self.verify() {
            self.nodes.insert(id.index(), node);
            return Err(error);
        }
        Ok(node)
    }
}

/// Reduces a graph to the part that certain outputs need.
pub trait CutGraph {
    /// Removes the values that no node, input or output of the graph uses and that are not in `others`. Returns the new id of each value
    /// that is left.
    fn forget_unused(&mut self, others: &[ValueId]) -> BTreeMap<ValueId, ValueId>;

    /// Keeps the nodes that produce `outputs`, which become the outputs of the graph. Other nodes are removed, and so are inputs that
    /// nothing reads.
    ///
    /// # Errors
    /// Fails without a change if the graph does not produce a value in `outputs`, or two of them have one name.
    fn cut_to(&mut self, outputs: Vec<ValueId>) -> Result<(), GraphError>;
}

impl CutGraph for Graph {
    fn forget_unused(&mut self, others: &[ValueId]) -> BTreeMap<ValueId, ValueId> {
        let produced = self.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied());
        let read = self.nodes.iter().flat_map(|node| node.reads().map(|(_, value)| value));
        let defaults = self.defaults.iter().map(|default| &default.value);
        let ends = self.inputs.iter().chain(&self.outputs).chain(defaults).chain(others).copied();
        let captured = self.captures.iter().map(|capture| capture.inner);
        let used: BTreeSet<_> = produced.chain(read).chain(ends).chain(captured).collect();
        let mut new_ids = BTreeMap::new();
        let mut values = Vec::with_capacity(used.len());
        for (id, value) in self.value_ids().zip(std::mem::take(&mut self.values)) {
            if used.contains(&id) {
                new_ids.insert(id, ValueId::new(values.len()));
                values.push(value);
            }
        }
        self.values = values;
        let renumber = |id: &mut ValueId| *id = new_ids.get(id).copied().unwrap_or(*id);
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(renumber);
        self.captures.iter_mut().for_each(|capture| renumber(&mut capture.inner));
        self.defaults.iter_mut().for_each(|default| renumber(&mut default.value));
        for node in &mut self.nodes {
            node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(renumber);
            for subgraph in subgraphs_mut(node) {
                subgraph.captures.iter_mut().for_each(|capture| renumber(&mut capture.outer));
            }
        }
        new_ids
    }

    fn cut_to(&mut self, outputs: Vec<ValueId>) -> Result<(), GraphError> {
        let mut is_read = PerValue::filled(self, false);
        for &output in &outputs {
            is_read.set(output, true);
        }
        let mut cut = Self { outputs, ..self.clone() };
        let mut nodes: Vec<Node> = Vec::new();
        for node in cut.nodes.into_iter().rev() {
            if node.outputs.iter().flatten().any(|&output| is_read.get(output) == Some(&true)) {
                node.reads().for_each(|(_, value)| is_read.set(value, true));
                nodes.push(node);
            }
        }
        nodes.reverse();
        cut.nodes = nodes;
        let remains = |&input: &ValueId| is_read.get(input) == Some(&true);
        cut.inputs.retain(remains);
        cut.defaults.retain(|default| remains(&default.value));
        for default in &mut cut.defaults {
            let previous = self.inputs.iter().take(default.index);
            default.index = previous.filter(|input| remains(input)).count();
        }
        for &input in self.inputs.iter().filter(|&&input| is_read.get(input) == Some(&false)) {
            if let Some(value) = cut.values.get_mut(input.index()) {
                value.source = Source::Computed;
            }
        }
        let contains = |ids: &[ValueId], name: &String| {
            ids.iter().any(|&id| self.value(id).is_ok_and(|value| value.name == *name))
        };
        let pairs = self.in_place.iter().filter(|(input, output)| {
            contains(&cut.inputs, input) && contains(&cut.outputs, output)
        });
        cut.in_place = pairs.cloned().collect();
        cut.verify()?;
        *self = cut;
        Ok(())
    }
}
