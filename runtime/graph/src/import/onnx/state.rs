//! What the reading of a model has at hand: what all its graphs have in common, and the graph that is being read.

use std::collections::HashMap;
use std::fmt::Arguments;

use super::external::Files;
use super::opsets::{Opsets, domain};
use super::proto::{FunctionProto, NodeProto};
use super::scope::{Functions, Scope};
use super::{ImportError, PackagedOp};
use crate::graph::{Graph, ValueId};

/// What all graphs of a model have in common.
pub(super) struct Model<'a> {
    pub(super) files: Files<'a>,
    pub(super) opsets: Opsets<'a>,
    pub(super) functions: Functions<'a>,
    pub(super) packaged: &'a [PackagedOp],
    /// Whether an initializer of an input's name is the input's default.
    pub(super) has_defaults: bool,
}

impl<'a> Model<'a> {
    /// The function that a node calls, unless a package has the operator.
    pub(super) fn function_of(&self, node: &NodeProto) -> Option<&'a FunctionProto> {
        let domain = domain(&node.domain);
        let function = self.functions.called_by(node);
        function.filter(|_| !self.packaged.iter().any(|op| op.takes(domain, &node.op_type)))
    }
}

/// A graph that is being read, and its outer ones.
pub(super) struct Import<'a> {
    pub(super) model: &'a Model<'a>,
    pub(super) level: Level,
    /// The outer graphs, the outermost first.
    pub(super) outer: Vec<Level>,
    /// Whose nodes are being read.
    pub(super) scope: Scope<'a>,
    /// The functions that are being called, the first one first.
    pub(super) calls: Vec<&'a FunctionProto>,
    /// What the nodes that are read next make for the node that calls their function.
    pub(super) made: HashMap<String, ValueId>,
    /// How many nodes came from functions.
    pub(super) inlined: usize,
}

/// A graph, as far as it has been read, and which value each name stands for.
pub(super) struct Level {
    pub(super) graph: Graph,
    pub(super) ids: HashMap<String, ValueId>,
}

impl Level {
    pub(super) fn new(name: &str) -> Self {
        Self { graph: Graph::new(name), ids: HashMap::new() }
    }

    /// Makes `name` stand for `id`.
    pub(super) fn define(
        &mut self,
        name: &str,
        id: ValueId,
        place: Arguments<'_>,
    ) -> Result<(), ImportError> {
        if name.is_empty() {
            return Err(ImportError::malformed(place, "no name", "one"));
        }
        if self.ids.insert(name.to_owned(), id).is_some() {
            let found = format!("a second value called {name:?}");
            return Err(ImportError::malformed(place, found, "different names"));
        }
        Ok(())
    }

    /// Makes `name` stand for a value of the outer graph.
    pub(super) fn capture(&mut self, name: &str, outer: ValueId) -> ValueId {
        let inner = self.graph.add_capture(name, outer);
        self.ids.insert(name.to_owned(), inner);
        inner
    }
}
