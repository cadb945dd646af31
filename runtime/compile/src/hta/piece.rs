//! Cuts a part of a model into a graph of its own, with quantized inputs and outputs.

use std::collections::{BTreeMap, BTreeSet};

use udo_api::DType;

use udo_graph::graph::{
    Graph, Links, Node, NodeId, NodeReads, Origin, PerValue, Source, TensorType, Value, ValueId,
};

const QUANTIZE: &str = "QuantizeLinear";
const DEQUANTIZE: &str = "DequantizeLinear";

/// A part of a model.
///
/// `QuantizeLinear` at its end belongs to the part, `DequantizeLinear` at its beginning does not, so the values at its
/// borders are quantized. Nodes that only read constants are copied into the part wherever they are.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The part's graph.
    pub(super) graph: Graph,
    /// The values of the model that it reads, in the order of its inputs.
    pub(super) inputs: Vec<ValueId>,
    /// The values of the model that it computes for others, in the order of its outputs.
    pub(super) outputs: Vec<ValueId>,
    /// The nodes of the model that it replaces.
    pub(super) replaced: BTreeSet<NodeId>,
    /// The ids of these nodes.
    pub(super) ids: Origin,
}

/// The reason why nodes cannot be one part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PieceError {
    /// None of them computes anything.
    #[error("nodes {0} compute nothing from quantized values")]
    Empty(String),
    /// A node depends on nodes outside that depend on the part: a path leaves the part and comes back.
    #[error(
        "node {reader:?} reads {value:?}, which nodes outside compute from results of the part, expected them in it as well"
    )]
    Around {
        /// The node.
        reader: String,
        /// Its input.
        value: String,
    },
    /// A node has subgraphs.
    #[error("node {node:?} ({op}) has subgraphs, which the HTA does not support")]
    Subgraphs {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
    },
}

impl Piece {
    /// Cuts these nodes out of `graph`.
    ///
    /// # Errors
    /// The nodes cannot be one part.
    pub(super) fn cut(graph: &Graph, ids: &Origin) -> Result<Self, PieceError> {
        let context = Context::new(graph);
        let core = context.core(ids);
        if core.is_empty() {
            return Err(PieceError::Empty(ids.to_string()));
        }
        context.check(&core)?;
        let mut cutting = Cutting {
            context: &context,
            core: &core,
            inner_values: BTreeMap::new(),
            piece: Self {
                graph: Graph::new(&graph.name),
                inputs: Vec::new(),
                outputs: Vec::new(),
                replaced: context.absorbed(&core),
                ids: Origin::default(),
            },
        };
        for &index in &core {
            cutting.node(index);
        }
        cutting.outputs();
        let mut piece = cutting.piece;
        for id in &piece.replaced {
            if let Ok(node) = graph.node(*id) {
                piece.ids.add(&node.origin);
            }
        }
        Ok(piece)
    }
}

/// A model with the producers and consumers of its values.
struct Context<'a> {
    graph: &'a Graph,
    producers: PerValue<Option<NodeId>>,
    /// The indices of the nodes that read each value.
    readers: Vec<Vec<usize>>,
    is_output: PerValue<bool>,
    /// Whether a node only reads constants.
    is_weight: Vec<bool>,
}

impl<'a> Context<'a> {
    fn new(graph: &'a Graph) -> Self {
        let producers = graph.producers();
        let consumers = graph.consumers();
        let readers = |id: ValueId| {
            let consumers = consumers.get(id).into_iter().flatten();
            consumers.map(|(reader, _)| reader.index()).collect()
        };
        let readers = graph.value_ids().map(readers).collect();
        let mut is_output = PerValue::filled(graph, false);
        for &output in &graph.outputs {
            is_output.set(output, true);
        }
        let mut is_known = PerValue::filled(graph, false);
        for id in graph.value_ids().filter(|&id| graph.constant(id).is_some()) {
            is_known.set(id, true);
        }
        let mut is_weight = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let reads_constants = node.reads().all(|(_, value)| is_known.get(value) == Some(&true));
            for &value in node.outputs.iter().flatten().filter(|_| reads_constants) {
                is_known.set(value, true);
            }
            is_weight.push(reads_constants);
        }
        Self { graph, producers, readers, is_output, is_weight }
    }

    fn node(&self, index: usize) -> Option<&'a Node> {
        self.graph.nodes.get(index)
    }

    fn has_op(&self, index: usize, op: &str) -> bool {
        self.node(index).is_some_and(|node| node.op == op)
    }

    fn is_weight(&self, index: usize) -> bool {
        self.is_weight.get(index) == Some(&true)
    }

    fn producer(&self, value: ValueId) -> Option<usize> {
        self.producers.get(value).copied().flatten().map(NodeId::index)
    }

    fn readers(&self, value: ValueId) -> &[usize] {
        self.readers.get(value.index()).map_or(&[], Vec::as_slice)
    }

    fn is_output(&self, value: ValueId) -> bool {
        self.is_output.get(value) == Some(&true)
    }

    /// Returns the chosen nodes that compute something, with `QuantizeLinear` at the end and without `DequantizeLinear`
    /// at the beginning.
    fn core(&self, ids: &Origin) -> BTreeSet<usize> {
        let chosen: BTreeSet<u32> = ids.ids().collect();
        let is_chosen = |index: &usize| {
            let mut ids = self.node(*index).into_iter().flat_map(|node| node.origin.ids());
            ids.any(|id| chosen.contains(&id))
                && !self.is_weight(*index)
                && !self.has_op(*index, DEQUANTIZE)
        };
        let mut core: BTreeSet<usize> = (0..self.graph.nodes.len()).filter(is_chosen).collect();
        let begins = |index: &usize| {
            let x = self.node(*index).and_then(|node| node.input(0));
            let producer = x.and_then(|x| self.producer(x));
            self.has_op(*index, QUANTIZE)
                && !producer.is_some_and(|producer| {
                    core.contains(&producer) || self.has_op(producer, DEQUANTIZE)
                })
        };
        let first: Vec<usize> = core.iter().copied().filter(begins).collect();
        for index in first {
            core.remove(&index);
        }
        let mut last = Vec::new();
        for node in core.iter().filter_map(|&index| self.node(index)) {
            for &value in node.outputs.iter().flatten() {
                let mut outside = self.readers(value).iter().filter(|index| !core.contains(index));
                let stores = outside.all(|&index| self.has_op(index, QUANTIZE));
                if stores && !self.is_output(value) {
                    last.extend_from_slice(self.readers(value));
                }
            }
        }
        core.extend(last);
        core
    }

    /// Checks that the core can be one node: no path leaves it and comes back.
    fn check(&self, core: &BTreeSet<usize>) -> Result<(), PieceError> {
        // The values that the core computes, and the values outside that depend on them.
        let (mut in_core, mut downstream) =
            (PerValue::filled(self.graph, false), PerValue::filled(self.graph, false));
        for (index, node) in self.graph.nodes.iter().enumerate() {
            let is_core = core.contains(&index);
            if is_core && node.subgraphs().next().is_some() {
                let (node, op) = (node.name.clone(), node.op.clone());
                return Err(PieceError::Subgraphs { node, op });
            }
            let mut is_downstream = false;
            for (_, value) in node.reads() {
                let read = if is_core { self.stored(value) } else { value };
                if is_core && downstream.get(read) == Some(&true) {
                    let value = self.graph.value(value).map(|value| value.name.clone());
                    let (reader, value) = (node.name.clone(), value.unwrap_or_default());
                    return Err(PieceError::Around { reader, value });
                }
                is_downstream |=
                    in_core.get(read) == Some(&true) || downstream.get(read) == Some(&true);
            }
            for &value in node.outputs.iter().flatten() {
                if is_core {
                    in_core.set(value, true);
                } else {
                    downstream.set(value, is_downstream);
                }
            }
        }
        Ok(())
    }

    /// Returns the quantized value that a value is dequantized from, or the value itself.
    fn stored(&self, value: ValueId) -> ValueId {
        let producer = self
            .producer(value)
            .filter(|&index| self.has_op(index, DEQUANTIZE) && !self.is_weight(index));
        producer.and_then(|index| self.node(index)?.input(0)).unwrap_or(value)
    }

    /// Returns the nodes that the part replaces: its own, and those that only it reads.
    fn absorbed(&self, core: &BTreeSet<usize>) -> BTreeSet<NodeId> {
        let mut absorbed = core.clone();
        for (index, node) in self.graph.nodes.iter().enumerate().rev() {
            let has_only_inner_readers = |&value: &ValueId| {
                let readers = self.readers(value);
                !self.is_output(value)
                    && !readers.is_empty()
                    && readers.iter().all(|reader| absorbed.contains(reader))
            };
            let may_be_absorbed = self.is_weight(index) || self.has_op(index, DEQUANTIZE);
            if may_be_absorbed && node.outputs.iter().flatten().all(has_only_inner_readers) {
                absorbed.insert(index);
            }
        }
        absorbed.into_iter().map(NodeId::new).collect()
    }
}

/// A part that is being cut out.
struct Cutting<'a> {
    context: &'a Context<'a>,
    /// The indices of the part's nodes, without those that only read constants.
    core: &'a BTreeSet<usize>,
    /// The part's value for each value of the model.
    inner_values: BTreeMap<ValueId, ValueId>,
    piece: Piece,
}

impl Cutting<'_> {
    fn model_value(&self, value: ValueId) -> Option<&Value> {
        self.context.graph.value(value).ok()
    }

    /// Adds a copy of a node, after the nodes that it reads.
    fn node(&mut self, index: usize) {
        let Some(node) = self.context.node(index) else { return };
        let inputs = node.inputs.iter().map(|value| value.map(|value| self.value(value)));
        let inputs: Vec<Option<ValueId>> = inputs.collect();
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for value in &node.outputs {
            outputs.push(value.map(|value| {
                let name =
                    self.model_value(value).map_or_else(String::new, |value| value.name.clone());
                let inner = self.piece.graph.add_value(&name);
                self.inner_values.insert(value, inner);
                inner
            }));
        }
        self.piece.graph.add_node(Node { inputs, outputs, pin: None, ..node.clone() });
    }

    /// Returns the part's value for a value of the model.
    fn value(&mut self, value: ValueId) -> ValueId {
        if let Some(&inner) = self.inner_values.get(&value) {
            return inner;
        }
        let name = self.model_value(value).map_or_else(String::new, |value| value.name.clone());
        if let Some(tensor) = self.context.graph.constant(value) {
            let inner = self.piece.graph.add_constant(&name, tensor.clone());
            self.inner_values.insert(value, inner);
            return inner;
        }
        let is_copied = |index: &usize| {
            !self.core.contains(index)
                && (self.context.is_weight(*index) || self.context.has_op(*index, DEQUANTIZE))
        };
        if let Some(index) = self.context.producer(value).filter(is_copied) {
            self.node(index);
            if let Some(&inner) = self.inner_values.get(&value) {
                return inner;
            }
        }
        let inner = self.piece.graph.add_input(&name, DType::U8, []);
        self.piece.inputs.push(value);
        self.inner_values.insert(value, inner);
        inner
    }

    /// Adds outputs for values that nodes outside or the caller read.
    fn outputs(&mut self) {
        for node in self.core.iter().filter_map(|&index| self.context.node(index)) {
            for &value in node.outputs.iter().flatten() {
                let mut readers = self.context.readers(value).iter();
                let is_read = self.context.is_output(value)
                    || readers.any(|&index| !self.piece.replaced.contains(&NodeId::new(index)));
                if let Some(&inner) = self.inner_values.get(&value).filter(|_| is_read) {
                    self.piece.outputs.push(value);
                    self.piece.graph.outputs.push(inner);
                }
            }
        }
    }
}

impl Piece {
    /// Declares the types of its inputs.
    pub(super) fn set_inputs(&mut self, types: impl Fn(ValueId) -> Option<TensorType>) {
        for (&inner, &outer) in self.graph.inputs.iter().zip(&self.inputs) {
            if let (Some(declared), Some(value)) =
                (types(outer), self.graph.values.get_mut(inner.index()))
            {
                value.source = Source::Input(declared);
            }
        }
    }
}
