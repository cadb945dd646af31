//! Errors of graphs: the invariants that `Graph::verify` checks.

use super::{MAX_DEPTH, NodeId, ValueId, text};

/// The reason why a graph is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An id of a value is out of range.
    #[error("{place} is value {}, expected one of the graph's {count}", id.0)]
    NoSuchValue {
        /// The place of the id in the graph.
        place: String,
        /// The id.
        id: ValueId,
        /// The number of values.
        count: usize,
    },
    /// An id of a node is out of range.
    #[error("there is no node {}, expected one of the graph's {count}", id.0)]
    NoSuchNode {
        /// The id.
        id: NodeId,
        /// The number of nodes.
        count: usize,
    },
    /// A value has more than one producer.
    #[error("node {node:?} makes value {value:?}, which already comes from {first}")]
    TwoProducers {
        /// The value.
        value: String,
        /// The second producer.
        node: String,
        /// The first producer.
        first: String,
    },
    /// A value in use has no producer.
    #[error("{place} is value {value:?}, which nothing makes")]
    NoProducer {
        /// The place of its use.
        place: String,
        /// The value.
        value: String,
    },
    /// A node precedes the producer of a value that it reads.
    #[error("node {node:?} reads value {value:?}, which a later node makes")]
    OutOfOrder {
        /// The reading node.
        node: String,
        /// The value.
        value: String,
    },
    /// The default of an input is invalid.
    #[error(
        "value {value:?}, the default of an input, {found}; expected a constant of the input's type, in the inputs' order"
    )]
    Default {
        /// The value.
        value: String,
        /// The fault of the value.
        found: String,
    },
    /// Nodes depend on each other in a cycle.
    #[error("nodes wait for each other: {}", text::cycle(nodes))]
    Cycle {
        /// The names of the nodes. Each node reads from the previous one, and the first reads from the last.
        nodes: Vec<String>,
    },
    /// Two inputs, or two outputs, have one name.
    #[error("two {kind} are called {name:?}, expected different names")]
    SameName {
        /// `inputs` or `outputs`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A value's source disagrees with the lists of inputs and captures.
    #[error("value {value:?} {found}, expected inputs and captures listed, and nothing else")]
    List {
        /// The value.
        value: String,
        /// How they disagree.
        found: &'static str,
    },
    /// A subgraph is invalid.
    #[error("{place}: {reason}")]
    Inside {
        /// The node and its attribute.
        place: String,
        /// The cause.
        reason: Box<GraphError>,
    },
    /// Subgraphs are nested too deep.
    #[error(
        "{place}: subgraphs are nested more than {MAX_DEPTH} deep, expected at most {MAX_DEPTH}"
    )]
    TooDeep {
        /// The outermost node and its attribute.
        place: String,
    },
}

impl GraphError {
    /// Returns the same error located in a subgraph of the node called `node`.
    pub(crate) fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        let place = subgraph_place(node, attribute, index);
        match self {
            // Only the outermost place: the full path would name more than `MAX_DEPTH` nodes.
            Self::TooDeep { .. } => Self::TooDeep { place },
            reason => Self::Inside { place, reason: Box::new(reason) },
        }
    }
}

/// Returns the place of a subgraph for messages.
pub(crate) fn subgraph_place(node: &str, attribute: &str, index: Option<usize>) -> String {
    let place = format!("node {node:?} attribute {attribute:?}");
    index.map_or(place.clone(), |index| format!("{place} graph {index}"))
}
