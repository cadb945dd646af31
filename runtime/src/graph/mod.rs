//! The graph of a model: nodes, the values between them, and what the model says of both.
//!
//! Knows nothing of file formats, of what operators mean, or of cores.

mod edit;
mod literal;
mod order;
mod parse;
mod text;
mod verify;

use std::fmt;

use udo_api::{DType, TensorDesc};

use crate::memory::Tensor;

pub use parse::ParseError;

/// A model's nodes and values; nodes stand in an order in which they can run.
///
/// What is known of a node and of a value grows from phase to phase, and is a type of its own in each: here as
/// imported, with operators and shapes in [`crate::resolve::TypedGraph`].
///
/// Values that nothing uses any more may stay in the table, so that ids outlive rewrites.
#[derive(Clone, Debug)]
pub struct Graph<N = Node, V = Value> {
    /// What to call the graph in messages.
    pub name: String,
    /// The nodes, producers before consumers.
    pub nodes: Vec<N>,
    /// The values; a [`ValueId`] is a place in here.
    pub values: Vec<V>,
    /// What a run is given, in the model's order.
    pub inputs: Vec<ValueId>,
    /// What a run gives back, in the model's order.
    pub outputs: Vec<ValueId>,
}

/// What every phase knows of a node.
pub trait GraphNode {
    /// The node as the model has it, or as edits made it.
    fn node(&self) -> &Node;

    /// What the text of a graph says of the node behind its name.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// What every phase knows of a value.
pub trait GraphValue {
    /// The value as the model has it.
    fn value(&self) -> &Value;

    /// Type and shape, where they are known of a value that a node makes.
    fn type_text(&self) -> Option<String>;
}

impl GraphNode for Node {
    fn node(&self) -> &Node {
        self
    }
}

impl GraphValue for Value {
    fn value(&self) -> &Value {
        self
    }

    fn type_text(&self) -> Option<String> {
        self.declared.as_ref().map(TensorType::to_string)
    }
}

/// A node's place in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A value's place in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl NodeId {
    /// The id of the node at `index`; past what an id can say, an id that no node has.
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The place in a list that has one entry per node.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl ValueId {
    /// The id of the value at `index`; past what an id can say, an id that no value has.
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The place in a list that has one entry per value.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// One use of an operator.
#[derive(Clone, Debug)]
pub struct Node {
    /// What to call the node in messages; not necessarily unique.
    pub name: String,
    /// The operator's type name.
    pub op: String,
    /// The operator's domain; empty for ONNX's own operators.
    pub domain: String,
    /// The version of the operator set that the node was written against.
    pub opset: u32,
    /// What it reads; `None` where an optional input is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes; `None` where an optional output is left out.
    pub outputs: Vec<Option<ValueId>>,
    /// Its attributes by name, in the model's order.
    pub attrs: Vec<(String, Attr)>,
}

impl Node {
    /// A node of ONNX's own domain, without attributes and not yet named.
    pub fn new(op: &str, opset: u32, inputs: &[ValueId], outputs: &[ValueId]) -> Self {
        Self {
            name: String::new(),
            op: op.to_owned(),
            domain: String::new(),
            opset,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: outputs.iter().copied().map(Some).collect(),
            attrs: Vec::new(),
        }
    }

    /// The attribute called `name`.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, attr)| attr)
    }

    /// Input `index`, or nothing where the node leaves it out.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Output `index`, or nothing where the node leaves it out.
    pub fn output(&self, index: usize) -> Option<ValueId> {
        self.outputs.get(index).copied().flatten()
    }
}

/// What an attribute holds; the file's narrower floats are widened, exactly.
#[derive(Clone, Debug)]
pub enum Attr {
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A text.
    Text(String),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Real numbers.
    Floats(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
    /// A tensor.
    Tensor(Tensor),
}

/// A tensor that some node, the caller or the model itself makes.
#[derive(Clone, Debug)]
pub struct Value {
    /// What to call the value.
    pub name: String,
    /// Where its elements come from.
    pub source: Source,
    /// What the model says of a value that a node makes; inference has the last word.
    pub declared: Option<TensorType>,
}

/// Where a value's elements come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The caller of a run, who gives a tensor of this type.
    Input(TensorType),
    /// The model.
    Constant(Tensor),
    /// A node.
    Computed,
}

/// An element type and what is said of the extents, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub dims: Vec<DimSpec>,
}

impl TensorType {
    /// Whether a tensor described by `desc` is of this type.
    pub fn admits(&self, desc: &TensorDesc) -> bool {
        let fits = |(spec, &extent): (&DimSpec, &usize)| match spec {
            DimSpec::Fixed(n) => *n == extent,
            DimSpec::Named(_) | DimSpec::Unknown => true,
        };
        desc.dtype() == Some(self.dtype)
            && desc.rank() == self.dims.len()
            && self.dims.iter().zip(desc.shape()).all(fits)
    }
}

/// What a model says of one extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimSpec {
    /// This many elements.
    Fixed(usize),
    /// As many as every other extent of this name.
    Named(String),
    /// Nothing.
    Unknown,
}

/// Why a graph is not one that can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An id names no value.
    #[error("{place} is value {}, wanted one of the graph's {count}", id.0)]
    NoSuchValue {
        /// Where the id stands.
        place: String,
        /// The id.
        id: ValueId,
        /// How many values there are.
        count: usize,
    },
    /// An id names no node.
    #[error("there is no node {}, wanted one of the graph's {count}", id.0)]
    NoSuchNode {
        /// The id.
        id: NodeId,
        /// How many nodes there are.
        count: usize,
    },
    /// A value is made more than once.
    #[error("node {node:?} makes value {value:?}, which already comes from {first}")]
    TwoProducers {
        /// The value.
        value: String,
        /// The node that makes it again.
        node: String,
        /// Where it came from first.
        first: String,
    },
    /// A value is used that nothing makes.
    #[error("{place} is value {value:?}, which nothing makes")]
    NoProducer {
        /// Who uses it.
        place: String,
        /// The value.
        value: String,
    },
    /// A node stands before one that it reads from.
    #[error("node {node:?} reads value {value:?}, which a later node makes")]
    OutOfOrder {
        /// The reading node.
        node: String,
        /// The value.
        value: String,
    },
    /// Nodes wait for each other.
    #[error("nodes wait for each other: {}", text::cycle(nodes))]
    Cycle {
        /// The nodes' names, each reading from the one before, the first from the last.
        nodes: Vec<String>,
    },
    /// Two inputs, or two outputs, have one name.
    #[error("two {kind} are called {name:?}, wanted different names")]
    SameName {
        /// `inputs` or `outputs`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The list of inputs and the values' sources disagree.
    #[error("value {value:?} {found}, wanted inputs listed and nothing else")]
    InputList {
        /// The value.
        value: String,
        /// How they disagree.
        found: &'static str,
    },
}

impl Graph {
    /// A graph with nothing in it.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes: Vec::new(),
            values: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds a value that a run is given.
    pub fn add_input(
        &mut self,
        name: &str,
        dtype: DType,
        dims: impl IntoIterator<Item = DimSpec>,
    ) -> ValueId {
        let dims = dims.into_iter().collect();
        let id = self.add(name, Source::Input(TensorType { dtype, dims }));
        self.inputs.push(id);
        id
    }

    /// Adds a value that the model holds.
    pub fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.add(name, Source::Constant(tensor))
    }

    /// Adds a value that some node makes.
    pub fn add_value(&mut self, name: &str) -> ValueId {
        self.add(name, Source::Computed)
    }

    fn add(&mut self, name: &str, source: Source) -> ValueId {
        let id = ValueId::at(self.values.len());
        self.values.push(Value { name: name.to_owned(), source, declared: None });
        id
    }

    /// Adds a node behind all others; one without a name is called after its operator and place.
    pub fn add_node(&mut self, mut node: Node) -> NodeId {
        let id = NodeId::at(self.nodes.len());
        if node.name.is_empty() {
            node.name = format!("{}_{}", node.op, id.0);
        }
        self.nodes.push(node);
        id
    }
}

impl<N: GraphNode, V: GraphValue> Graph<N, V> {
    /// The value with this id.
    ///
    /// # Errors
    /// There is none.
    pub fn value(&self, id: ValueId) -> Result<&V, GraphError> {
        self.value_at(id, || "an id".to_owned())
    }

    fn value_at(&self, id: ValueId, place: impl Fn() -> String) -> Result<&V, GraphError> {
        self.values.get(id.index()).ok_or_else(|| GraphError::NoSuchValue {
            place: place(),
            id,
            count: self.values.len(),
        })
    }

    /// The node with this id.
    ///
    /// # Errors
    /// There is none.
    pub fn node(&self, id: NodeId) -> Result<&N, GraphError> {
        let count = self.nodes.len();
        self.nodes.get(id.index()).ok_or(GraphError::NoSuchNode { id, count })
    }

    /// The elements of a value that the model holds.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match &self.values.get(id.index())?.value().source {
            Source::Constant(tensor) => Some(tensor),
            Source::Input(_) | Source::Computed => None,
        }
    }

    /// The first value called `name`; a search through all of them.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| v.value().name == name).map(ValueId::at)
    }

    /// The ids of all nodes, in order.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<N, V> {
        (0..self.nodes.len()).map(NodeId::at)
    }

    /// The ids of all values, in order.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<N, V> {
        (0..self.values.len()).map(ValueId::at)
    }

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

    /// The nodes that read each value, with the input that they read it as.
    pub fn consumers(&self) -> PerValue<Vec<(NodeId, usize)>> {
        let mut consumers = PerValue::filled(self, Vec::new());
        for (id, node) in self.node_ids().zip(&self.nodes) {
            for (port, input) in node.node().inputs.iter().enumerate() {
                if let Some(readers) = input.and_then(|value| consumers.get_mut(value)) {
                    readers.push((id, port));
                }
            }
        }
        consumers
    }

    /// Puts producers before consumers and otherwise keeps the order; node ids change.
    ///
    /// # Errors
    /// Nodes wait for each other.
    pub fn sort(&mut self) -> Result<(), GraphError> {
        let order = order::topological(self)?;
        let mut nodes: Vec<_> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes =
            order.into_iter().filter_map(|at| nodes.get_mut(at).and_then(Option::take)).collect();
        Ok(())
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

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::tensor_type(self, f)
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::attr(self, f)
    }
}

impl<N: GraphNode, V: GraphValue> fmt::Display for Graph<N, V> {
    /// The whole graph as text, a line for each node; the same graph always gives the same text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::graph(self, f)
    }
}

#[cfg(test)]
mod tests;
