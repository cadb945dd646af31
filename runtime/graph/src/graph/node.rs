//! Nodes and their subgraphs. A subgraph is a graph in an attribute of a node, such as the branches of `If`.

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
    /// The nodes of the imported model that it computes; unknown before the model's nodes are numbered.
    pub origin: Origin,
    /// The number of the user's rule that assigns the node to a core, if one does. Passes do not fuse nodes with different
    /// pins.
    pub pin: Option<u16>,
}

impl Node {
    /// Creates a node of ONNX's own domain, without attributes and a name.
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

    /// Returns the attribute called `name`.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, attr)| attr)
    }

    /// Returns input `index`, or `None` if the node omits it.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Returns output `index`, or `None` if the node omits it.
    pub fn output(&self, index: usize) -> Option<ValueId> {
        self.outputs.get(index).copied().flatten()
    }
}

/// The values that a node reads: its inputs, and the values of the outer graph that its subgraphs capture.
pub trait NodeReads {
    /// Returns the graphs in the attributes of the node, in order.
    fn subgraphs(&self) -> impl Iterator<Item = Subgraph<'_>>;

    /// Returns all values that the node reads, one entry for each read: the inputs, then the captures of its subgraphs.
    /// Values that captures of nested subgraphs need are captures of the outer subgraph too.
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
    /// A string.
    Text(String),
    /// A list of whole numbers.
    Ints(Vec<i64>),
    /// A list of real numbers.
    Floats(Vec<f64>),
    /// A list of strings.
    Texts(Vec<String>),
    /// A tensor.
    Tensor(Tensor),
    /// A graph.
    Graph(Box<Graph>),
    /// A list of graphs.
    Graphs(Vec<Graph>),
}

impl Attr {
    /// Returns the graphs of the attribute; empty for other attributes.
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
    /// Its index in the attribute, if that is a list.
    pub index: Option<usize>,
    /// The graph.
    pub graph: &'a Graph,
}

/// The role of a value that a node reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The input with this index.
    Input(usize),
    /// A capture of one of its subgraphs.
    Capture,
}
