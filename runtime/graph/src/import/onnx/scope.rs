//! The functions of a model, and the scope of a call: the importer replaces a node that calls a function by the function's
//! nodes, and reads them with the names, attributes and operator sets of the function.

use std::collections::{HashMap, HashSet};

use super::ImportError;
use super::opsets::{Opsets, domain};
use super::proto::{AttributeProto, FunctionProto, NodeProto};
use crate::graph::ValueId;

/// The functions of a model by domain, name and overload.
#[derive(Default)]
pub(super) struct Functions<'a>(HashMap<[&'a str; 3], &'a FunctionProto>);

/// The scope of the nodes being read: a graph's own, or that of a function call.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// The called function; `None` for a graph's own nodes.
    pub(super) function: Option<&'a FunctionProto>,
    /// The name of the calling node, followed by a slash.
    pub(super) prefix: String,
    /// The function's attributes: the caller's values, and the defaults of the others.
    pub(super) attributes: HashMap<String, AttributeProto>,
    /// The operator sets of the function.
    pub(super) opsets: Opsets<'a>,
    /// The function's inputs that the calling node leaves out.
    pub(super) absent: HashSet<&'a str>,
    /// The number of outer graphs, the outermost first, whose values the function cannot see.
    pub(super) hidden: usize,
}

impl<'a> Functions<'a> {
    /// Indexes the functions.
    ///
    /// # Errors
    /// Fails if two functions have the same name, domain and overload.
    pub(super) fn new(functions: &'a [FunctionProto]) -> Result<Self, ImportError> {
        let mut index = HashMap::new();
        for function in functions {
            let key = [domain(&function.domain), &function.name, &function.overload];
            if index.insert(key, function).is_some() {
                let place = format_args!("function {:?}", function.name);
                return Err(ImportError::malformed(
                    place,
                    "a duplicate function",
                    "different names",
                ));
            }
        }
        Ok(Self(index))
    }

    /// Returns the function that a node calls.
    pub(super) fn called_by(&self, node: &NodeProto) -> Option<&'a FunctionProto> {
        self.0.get(&[domain(&node.domain), node.op_type.as_str(), node.overload.as_str()]).copied()
    }
}

/// A node that calls a function.
pub(super) struct Call<'a, 'n> {
    pub(super) function: &'a FunctionProto,
    /// The name of the node.
    pub(super) name: &'n str,
    pub(super) inputs: Vec<Option<ValueId>>,
    pub(super) outputs: Vec<Option<ValueId>>,
    pub(super) attributes: Vec<AttributeProto>,
}
