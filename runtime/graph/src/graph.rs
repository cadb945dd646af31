//! The graph of a model: nodes, the values between them, and what the model says of both.
//!
//! Knows nothing of file formats, of what operators mean, or of cores.

mod cursor;
mod defaults;
mod edit;
mod error;
mod in_place;
mod literal;
mod maps;
mod node;
mod order;
mod origin;
mod outputs;
mod parse;
mod selector;
mod text;
mod verify;

use std::fmt;

use udo_api::{DType, TensorDesc};

use crate::memory::{ModelBytes, Tensor};

pub use defaults::{DefaultInput, promote_defaults};
pub use edit::CutGraph;
pub use error::GraphError;
pub(crate) use error::subgraph_place;
pub use in_place::{InPlace, InPlaceError};
pub use maps::{Links, PerValue};
pub use node::{Attr, Capture, Node, NodeReads, Read, Subgraph, subgraphs_mut};
pub use origin::{Origin, number_nodes};
pub use outputs::{NoSuchValue, values_named};
pub use parse::ParseError;
pub use selector::{NoSelector, NoSuchNodes, Selector, pin_nodes};

/// An alias of ONNX's default domain, whose name is empty in graphs.
pub const ONNX_DOMAIN: &str = "ai.onnx";

/// A domain as graphs have it.
pub fn domain_of(name: &str) -> &str {
    if name == ONNX_DOMAIN { "" } else { name }
}

/// The newest operator set of ONNX, in whose form built-in operators take their nodes.
pub const NEWEST: u32 = 27;

/// How deep subgraphs may be nested.
pub(crate) const MAX_DEPTH: usize = 16;

/// A model's nodes and values; nodes stand in an order in which they can run.
///
/// Nodes and values have different types in each phase: [`Node`] and [`Value`] after the import, and types with operators and
/// shapes in `udo_compile::resolve::TypedGraph`.
///
/// Values that nothing uses any more may stay in the table, so that ids outlive rewrites.
///
/// An attribute of a node may hold a subgraph: the node's operator says when it runs and on what. Ids in it are its own.
/// A subgraph lists in `captures` the values that it reads of the outer graph. A value from further out is captured by each
/// graph in between.
#[derive(Clone, Debug)]
pub struct Graph<N = Node, V = Value> {
    /// The name of the graph in messages.
    pub name: String,
    /// The nodes, producers before consumers.
    pub nodes: Vec<N>,
    /// The values; a [`ValueId`] is a place in here.
    pub values: Vec<V>,
    /// The inputs of a run, or of a subgraph, in the model's order.
    pub inputs: Vec<ValueId>,
    /// The values of the outer graph that a subgraph reads.
    pub captures: Vec<Capture>,
    /// The outputs of a run, or of a subgraph, in the model's order.
    pub outputs: Vec<ValueId>,
    /// The inputs that the model has a default for, in its order; none of a subgraph.
    pub defaults: Vec<DefaultInput>,
    /// Pairs of an input's and an output's name that runs may have in one place; none of a subgraph.
    pub in_place: Vec<(String, String)>,
    /// Nodes that run on a core, whichever are preferred: strings such as `0-11=dsp`. Empty for a subgraph.
    pub affinity: Vec<String>,
    /// Programs that parts of it were compiled to, which go with its file; none of a subgraph.
    pub compiled: Vec<Compiled>,
}

/// Programs for an accelerator that parts of a model were compiled to. Nobody has looked at them yet.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The accelerator.
    pub target: String,
    /// The stage of the model's network that is loaded, by its place.
    pub stage: usize,
    /// Programs, of all stages.
    pub bytes: ModelBytes,
}

/// A node in any phase.
pub trait GraphNode {
    /// The node as the model has it, or as edits made it.
    fn node(&self) -> &Node;

    /// Returns the remark after the node's name in the text of a graph.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// A value in any phase.
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
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The place in a list that has one entry per node.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl ValueId {
    /// The id of the value at `index`; past what an id can say, an id that no value has.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The place in a list that has one entry per value.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A tensor that some node, the caller or the model itself makes.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name of the value.
    pub name: String,
    /// Where its elements come from.
    pub source: Source,
    /// The type that the model declares for a computed value or a subgraph's input. Inference may refine it.
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
    /// The outer graph of this subgraph: the value is one of [`Graph::inputs`] or [`Graph::captures`].
    Outer,
}

/// An element type and what is said of the extents, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub dims: Vec<DimSpec>,
}

/// Whether a type admits a tensor: the element type and the rank are the same, and all fixed extents are.
pub fn admits(of: &TensorType, desc: &TensorDesc) -> bool {
    let fits = |(spec, &extent): (&DimSpec, &usize)| match spec {
        DimSpec::Fixed(n) => *n == extent,
        DimSpec::Named(_) | DimSpec::Unknown => true,
    };
    desc.dtype() == Some(of.dtype)
        && desc.rank() == of.dims.len()
        && of.dims.iter().zip(desc.shape()).all(fits)
}

/// An extent as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimSpec {
    /// This many elements.
    Fixed(usize),
    /// As many as every other extent of this name.
    Named(String),
    /// Nothing.
    Unknown,
}

impl Graph {
    /// A graph with nothing in it.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes: Vec::new(),
            values: Vec::new(),
            inputs: Vec::new(),
            captures: Vec::new(),
            outputs: Vec::new(),
            defaults: Vec::new(),
            in_place: Vec::new(),
            affinity: Vec::new(),
            compiled: Vec::new(),
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

    /// Adds a value that the node of this subgraph gives it.
    pub fn add_parameter(&mut self, name: &str, declared: Option<TensorType>) -> ValueId {
        let id = self.add(name, Source::Outer);
        if let Some(value) = self.values.last_mut() {
            value.declared = declared;
        }
        self.inputs.push(id);
        id
    }

    /// Adds a value that is the value `outer` of the outer graph.
    pub fn add_capture(&mut self, name: &str, outer: ValueId) -> ValueId {
        let inner = self.add(name, Source::Outer);
        self.captures.push(Capture { inner, outer });
        inner
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
        let id = ValueId::new(self.values.len());
        self.values.push(Value { name: name.to_owned(), source, declared: None });
        id
    }

    /// Appends a node; one without a name is called after its operator and place, and one of `ai.onnx` is of
    /// ONNX's own domain, which is empty.
    pub fn add_node(&mut self, mut node: Node) -> NodeId {
        let id = NodeId::new(self.nodes.len());
        if domain_of(&node.domain).is_empty() {
            node.domain.clear();
        }
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
    /// Fails if the id is invalid.
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
    /// Fails if the id is invalid.
    pub fn node(&self, id: NodeId) -> Result<&N, GraphError> {
        let count = self.nodes.len();
        self.nodes.get(id.index()).ok_or(GraphError::NoSuchNode { id, count })
    }

    /// The elements of a value that the model holds.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match &self.values.get(id.index())?.value().source {
            Source::Constant(tensor) => Some(tensor),
            Source::Input(_) | Source::Computed | Source::Outer => None,
        }
    }

    /// The first value called `name`; a search through all of them.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| v.value().name == name).map(ValueId::new)
    }

    /// The ids of all nodes, in order.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<N, V> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// The ids of all values, in order.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<N, V> {
        (0..self.values.len()).map(ValueId::new)
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
    /// The whole graph as text, a line for each node and for those of its subgraphs; the same graph always gives the
    /// same text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::graph(self, f)
    }
}

#[cfg(test)]
mod tests;
