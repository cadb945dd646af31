//! Why a graph is none that can run.

use super::{MAX_DEPTH, NodeId, ValueId, text};

/// Why a graph is not one that can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An id names no value.
    #[error("{place} is value {}, expected one of the graph's {count}", id.0)]
    NoSuchValue {
        /// Where the id stands.
        place: String,
        /// The id.
        id: ValueId,
        /// How many values there are.
        count: usize,
    },
    /// An id names no node.
    #[error("there is no node {}, expected one of the graph's {count}", id.0)]
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
    /// The default of an input is none.
    #[error(
        "value {value:?}, the default of an input, {found}; expected a constant of the input's type, in the inputs' order"
    )]
    Default {
        /// The value.
        value: String,
        /// The fault of the value.
        found: String,
    },
    /// Nodes wait for each other.
    #[error("nodes wait for each other: {}", text::cycle(nodes))]
    Cycle {
        /// The nodes' names, each reading from the one before, the first from the last.
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
    /// The lists of inputs and of captures, and the values' sources, disagree.
    #[error("value {value:?} {found}, expected inputs and captures listed, and nothing else")]
    List {
        /// The value.
        value: String,
        /// How they disagree.
        found: &'static str,
    },
    /// A subgraph is not one that can run.
    #[error("{place}: {reason}")]
    Inside {
        /// The node and its attribute.
        place: String,
        /// Why.
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
    /// The same, said of a subgraph of the node called `node`.
    pub(crate) fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        let place = subgraph_place(node, attribute, index);
        match self {
            // Where the outermost graph is says enough, and the way to the innermost one is long.
            Self::TooDeep { .. } => Self::TooDeep { place },
            reason => Self::Inside { place, reason: Box::new(reason) },
        }
    }
}

/// The place of a subgraph in messages.
pub(crate) fn subgraph_place(node: &str, attribute: &str, index: Option<usize>) -> String {
    let place = format!("node {node:?} attribute {attribute:?}");
    index.map_or(place.clone(), |index| format!("{place} graph {index}"))
}
