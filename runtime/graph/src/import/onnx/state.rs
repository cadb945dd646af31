//! The state of an import: what all graphs of the model share, and the graph being read.

use std::collections::HashMap;
use std::fmt::Arguments;

use super::external::Files;
use super::opsets::{Opsets, domain};
use super::proto::{FunctionProto, NodeProto};
use super::scope::{Functions, Scope};
use super::{ImportError, PackagedOp};
use crate::graph::{Graph, ValueId};

/// The state that all graphs of a model share.
pub(super) struct Model<'a> {
    pub(super) files: Files<'a>,
    pub(super) opsets: Opsets<'a>,
    pub(super) functions: Functions<'a>,
    /// The operators that loaded packages implement.
    pub(super) packaged: &'a [PackagedOp],
    /// Whether an initializer with an input's name is the input's default.
    pub(super) has_defaults: bool,
}

impl<'a> Model<'a> {
    /// Returns the function that a node calls, unless a package implements the operator.
    pub(super) fn called_function(&self, node: &NodeProto) -> Option<&'a FunctionProto> {
        let domain = domain(&node.domain);
        let function = self.functions.called_by(node);
        function.filter(|_| !self.packaged.iter().any(|op| op.implements(domain, &node.op_type)))
    }
}

/// The state of an import: the graph being read, its outer graphs, and the active function calls.
pub(super) struct Import<'a> {
    pub(super) model: &'a Model<'a>,
    /// The graph being read.
    pub(super) level: Level,
    /// The outer graphs, the outermost first.
    pub(super) outer: Vec<Level>,
    /// The scope of the nodes being read.
    pub(super) scope: Scope<'a>,
    /// The active function calls, outermost first.
    pub(super) calls: Vec<&'a FunctionProto>,
    /// Outputs of the calling node without a producer yet, by their names in the function. The function's node that
    /// produces such a name produces the value.
    pub(super) pending_outputs: HashMap<String, ValueId>,
    /// The number of nodes inlined from functions.
    pub(super) inlined: usize,
}

/// A partly read graph, and its values by name.
pub(super) struct Level {
    pub(super) graph: Graph,
    pub(super) ids: HashMap<String, ValueId>,
}

impl Level {
    pub(super) fn new(name: &str) -> Self {
        Self { graph: Graph::new(name), ids: HashMap::new() }
    }

    /// Binds `name` to the value `id`.
    pub(super) fn define(
        &mut self,
        name: &str,
        id: ValueId,
        place: Arguments<'_>,
    ) -> Result<(), ImportError> {
        if name.is_empty() {
            return Err(ImportError::malformed(place, "no name", "a name"));
        }
        if self.ids.insert(name.to_owned(), id).is_some() {
            let found = format!("a second value called {name:?}");
            return Err(ImportError::malformed(place, found, "different names"));
        }
        Ok(())
    }

    /// Binds `name` to a capture of a value of the outer graph.
    pub(super) fn capture(&mut self, name: &str, outer: ValueId) -> ValueId {
        let inner = self.graph.add_capture(name, outer);
        self.ids.insert(name.to_owned(), inner);
        inner
    }
}
