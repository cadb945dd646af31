//! Nodes and their subgraphs.

use super::{Graph, Origin, ValueId};
use crate::memory::Tensor;

/// One use of an operator.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of the node in messages; not necessarily unique.
    pub name: String,
    /// The operator's type name.
    pub op: String,
    /// The operator's domain; empty for ONNX's own operators.
    pub domain: String,
    /// The version of the operator set that the node was written against.
    pub opset: u32,
    /// The inputs; `None` for an omitted optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// The outputs; `None` for an omitted optional output.
    pub outputs: Vec<Option<ValueId>>,
    /// Its attributes by name, in the model's order.
    pub attrs: Vec<(String, Attr)>,
    /// The nodes of the model that it does the work of; not known of one that nobody numbered yet.
    pub origin: Origin,
    /// The number of what says where it runs, if something does. Nodes with different ones are never made one.
    pub pin: Option<u16>,
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
            origin: Origin::default(),
            pin: None,
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

/// All that a node reads, with what its subgraphs capture.
pub trait NodeReads {
    /// Returns the graphs in the attributes of the node, in order.
    fn subgraphs(&self) -> impl Iterator<Item = Subgraph<'_>>;

    /// Returns all that the node reads: its inputs, then what its subgraphs capture, one entry for each read.
    fn reads(&self) -> impl Iterator<Item = (Read, ValueId)>;
}

impl NodeReads for Node {
    fn subgraphs(&self) -> impl Iterator<Item = Subgraph<'_>> {
        self.attrs.iter().flat_map(|(attribute, attr)| {
            let is_list = matches!(attr, Attr::Graphs(_));
            let subgraph = move |(index, graph)| {
                let index = is_list.then_some(index);
                Subgraph { attribute, index, graph }
            };
            attr.graphs().iter().enumerate().map(subgraph)
        })
    }

    fn reads(&self) -> impl Iterator<Item = (Read, ValueId)> {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.filter_map(|(port, input)| Some((Read::Input(port), (*input)?)));
        let captures = self.subgraphs().flat_map(|subgraph| &subgraph.graph.captures);
        inputs.chain(captures.map(|capture| (Read::Capture, capture.outer)))
    }
}

/// The value of an attribute. Narrower floats of the file are widened, which is exact.
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
    /// Strings.
    Texts(Vec<String>),
    /// A tensor.
    Tensor(Tensor),
    /// A graph.
    Graph(Box<Graph>),
    /// Graphs.
    Graphs(Vec<Graph>),
}

impl Attr {
    /// The graphs in it.
    pub(crate) fn graphs(&self) -> &[Graph] {
        match self {
            Self::Graph(graph) => std::slice::from_ref(graph),
            Self::Graphs(graphs) => graphs,
            Self::Int(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Ints(_)
            | Self::Floats(_)
            | Self::Texts(_)
            | Self::Tensor(_) => &[],
        }
    }

    fn graphs_mut(&mut self) -> &mut [Graph] {
        match self {
            Self::Graph(graph) => std::slice::from_mut(graph),
            Self::Graphs(graphs) => graphs,
            Self::Int(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Ints(_)
            | Self::Floats(_)
            | Self::Texts(_)
            | Self::Tensor(_) => &mut [],
        }
    }
}

/// Returns the subgraphs in the attributes of a node, to be edited.
pub fn subgraphs_mut(node: &mut Node) -> impl Iterator<Item = &mut Graph> {
    node.attrs.iter_mut().flat_map(|(_, attr)| attr.graphs_mut())
}

/// A value that a subgraph reads of the outer graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The value in the subgraph; its source is [`Source::Outer`](super::Source::Outer).
    pub inner: ValueId,
    /// The value in the outer graph.
    pub outer: ValueId,
}

/// A graph in an attribute of a node.
#[derive(Clone, Copy, Debug)]
pub struct Subgraph<'a> {
    /// The attribute's name.
    pub attribute: &'a str,
    /// Its place in the attribute, where that is a list.
    pub index: Option<usize>,
    /// The graph.
    pub graph: &'a Graph,
}

/// As what a node reads a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// As this input.
    Input(usize),
    /// As what one of its subgraphs captures.
    Capture,
}
