//! The graph of a model: nodes, the values (tensors) between them, and the types that the model declares.
//!
//! Importers create graphs and the compiler transforms them. This module does not depend on file formats, on the meaning
//! of operators, or on cores.

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

/// Returns the name of a domain in graphs.
pub fn domain_of(name: &str) -> &str {
    if name == ONNX_DOMAIN { "" } else { name }
}

/// The newest supported operator set of ONNX. The compiler upgrades older nodes to it, so built-in operators implement only
/// this version.
pub const NEWEST: u32 = 27;

/// The maximum nesting depth of subgraphs.
pub(crate) const MAX_DEPTH: usize = 16;

/// A model's nodes and values. The nodes are in an order in which they can run.
///
/// Nodes and values have different types in each phase of a compilation: [`Node`] and [`Value`] after the import, and types with operators and
/// shapes in `udo_compile::resolve::TypedGraph`.
///
/// Values that nothing uses any more may stay in the table, so that ids outlive rewrites.
///
/// An attribute of a node may be a subgraph: the node's operator defines when it runs and on which inputs. A subgraph
/// numbers its own nodes and values.
/// A subgraph lists in `captures` the values that it reads of the outer graph. A value from further out is captured by each
/// graph in between.
#[derive(Clone, Debug)]
pub struct Graph<N = Node, V = Value> {
    /// The name of the graph in messages.
    pub name: String,
    /// The nodes, producers before consumers.
    pub nodes: Vec<N>,
    /// The values; a [`ValueId`] is an index into this list.
    pub values: Vec<V>,
    /// The inputs of a run, or of a subgraph, in the model's order.
    pub inputs: Vec<ValueId>,
    /// The values of the outer graph that a subgraph reads.
    pub captures: Vec<Capture>,
    /// The outputs of a run, or of a subgraph, in the model's order.
    pub outputs: Vec<ValueId>,
    /// The inputs with a default, in the model's order; empty for a subgraph.
    pub defaults: Vec<DefaultInput>,
    /// Pairs of an input's and an output's name that may share memory; empty for a subgraph.
    pub in_place: Vec<(String, String)>,
    /// Rules that assign nodes to cores, such as `0-11=dsp`; empty for a subgraph.
    pub affinity: Vec<String>,
    /// Precompiled programs of the model file; empty for a subgraph.
    pub compiled: Vec<Compiled>,
}

/// Precompiled programs of a model file for parts of its graphs on an accelerator. The bytes are not validated yet.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The accelerator.
    pub target: String,
    /// The index of the loaded stage in its network.
    pub stage: usize,
    /// The programs of all stages.
    pub bytes: ModelBytes,
}

/// A node in any phase of a compilation.
pub trait GraphNode {
    /// Returns the node without the results of later phases.
    fn node(&self) -> &Node;

    /// Returns the remark after the node's name in the text of a graph.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// A value in any phase of a compilation.
pub trait GraphValue {
    /// Returns the value without the results of later phases.
    fn value(&self) -> &Value;

    /// Returns the type and shape of a computed value as text, if they are known.
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

/// A node's index in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A value's index in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl NodeId {
    /// Creates the id of the node at `index`. An index beyond 32 bits gives the id of no node.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the index in a list with one entry per node.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl ValueId {
    /// Creates the id of the value at `index`. An index beyond 32 bits gives the id of no value.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the index in a list with one entry per value.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A tensor of the graph: an input, a constant, or the output of a node.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name of the value.
    pub name: String,
    /// The origin of its elements.
    pub source: Source,
    /// The type that the model declares for a computed value or a subgraph's input. Inference may refine it.
    pub declared: Option<TensorType>,
}

/// The origin of a value's elements.
#[derive(Clone, Debug)]
pub enum Source {
    /// The caller of a run, who passes a tensor of this type.
    Input(TensorType),
    /// The model.
    Constant(Tensor),
    /// A node.
    Computed,
    /// The outer graph of this subgraph: the value is one of [`Graph::inputs`] or [`Graph::captures`].
    Outer,
}

/// An element type, and the dimensions, outermost first. Dimensions may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Vec<DimSpec>,
}

/// Whether a type admits a tensor: the element type and the rank are the same, and all fixed extents are.
pub fn admits(tensor_type: &TensorType, desc: &TensorDesc) -> bool {
    let fits = |(spec, &extent): (&DimSpec, &usize)| match spec {
        DimSpec::Fixed(n) => *n == extent,
        DimSpec::Named(_) | DimSpec::Unknown => true,
    };
    let TensorType { dtype, dims } = tensor_type;
    desc.dtype() == Some(*dtype)
        && desc.rank() == dims.len()
        && dims.iter().zip(desc.shape()).all(fits)
}

/// An extent as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimSpec {
    /// This extent.
    Fixed(usize),
    /// An unknown extent, equal to all others of this name.
    Named(String),
    /// An unknown extent.
    Unknown,
}

impl Graph {
    /// Creates an empty graph.
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

    /// Adds an input of the main graph.
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

    /// Adds an input of a subgraph, which the node that runs the subgraph passes.
    pub fn add_parameter(&mut self, name: &str, declared: Option<TensorType>) -> ValueId {
        let id = self.add(name, Source::Outer);
        if let Some(value) = self.values.last_mut() {
            value.declared = declared;
        }
        self.inputs.push(id);
        id
    }

    /// Adds a value to a subgraph that stands for the value `outer` of the outer graph.
    pub fn add_capture(&mut self, name: &str, outer: ValueId) -> ValueId {
        let inner = self.add(name, Source::Outer);
        self.captures.push(Capture { inner, outer });
        inner
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.add(name, Source::Constant(tensor))
    }

    /// Adds a computed value: an output of a node.
    pub fn add_value(&mut self, name: &str) -> ValueId {
        self.add(name, Source::Computed)
    }

    fn add(&mut self, name: &str, source: Source) -> ValueId {
        let id = ValueId::new(self.values.len());
        self.values.push(Value { name: name.to_owned(), source, declared: None });
        id
    }

    /// Appends a node. A node without a name is named after its operator and index. The domain `ai.onnx` becomes the empty
    /// name of ONNX's own domain.
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
    /// Returns the value with this id.
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

    /// Returns the node with this id.
    ///
    /// # Errors
    /// Fails if the id is invalid.
    pub fn node(&self, id: NodeId) -> Result<&N, GraphError> {
        let count = self.nodes.len();
        self.nodes.get(id.index()).ok_or(GraphError::NoSuchNode { id, count })
    }

    /// Returns the tensor of a constant; `None` for other values.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match &self.values.get(id.index())?.value().source {
            Source::Constant(tensor) => Some(tensor),
            Source::Input(_) | Source::Computed | Source::Outer => None,
        }
    }

    /// Searches the first value called `name`.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| v.value().name == name).map(ValueId::new)
    }

    /// Returns the ids of all nodes, in order.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<N, V> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// Returns the ids of all values, in order.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<N, V> {
        (0..self.values.len()).map(ValueId::new)
    }

    /// Sorts the nodes: producers before consumers, otherwise in their present order. Ids of nodes change.
    ///
    /// # Errors
    /// Fails if nodes depend on each other in a cycle.
    pub fn sort(&mut self) -> Result<(), GraphError> {
        let order = order::topological(self)?;
        let mut nodes: Vec<_> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = order
            .into_iter()
            .filter_map(|node| nodes.get_mut(node).and_then(Option::take))
            .collect();
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
    /// Prints the graph with one line for each node, including those of subgraphs. Equal graphs print equally.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::graph(self, f)
    }
}

#[cfg(test)]
mod tests;
