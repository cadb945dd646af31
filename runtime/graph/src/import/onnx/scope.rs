//! The functions of a model, and the scope of names that each call of one is.

use std::collections::{HashMap, HashSet};

use super::ImportError;
use super::opsets::{Opsets, domain};
use super::proto::{AttributeProto, FunctionProto, NodeProto};
use crate::graph::ValueId;

/// The functions of a model by domain, name and overload.
#[derive(Default)]
pub(super) struct Functions<'a>(HashMap<[&'a str; 3], &'a FunctionProto>);

/// Which nodes are being read: those of a graph, or those of the function that one of its nodes calls.
#[derive(Default)]
pub(super) struct Scope<'a> {
    /// The function, unless it is a graph's own nodes.
    pub(super) function: Option<&'a FunctionProto>,
    /// How the node is called that calls it, with a stroke behind.
    pub(super) prefix: String,
    /// What the node gives for the function's attributes, and the defaults of others.
    pub(super) attributes: HashMap<String, AttributeProto>,
    /// The operator sets of the function.
    pub(super) opsets: Opsets<'a>,
    /// What the function calls inputs that the node leaves out.
    pub(super) absent: HashSet<&'a str>,
    /// How many graphs further out its nodes know nothing of.
    pub(super) hidden: usize,
}

impl<'a> Functions<'a> {
    /// # Errors
    /// Two of the same name.
    pub(super) fn of(functions: &'a [FunctionProto]) -> Result<Self, ImportError> {
        let mut of = HashMap::new();
        for function in functions {
            let key = [domain(&function.domain), &function.name, &function.overload];
            if of.insert(key, function).is_some() {
                let place = format_args!("function {:?}", function.name);
                return Err(ImportError::malformed(place, "a second of its name", "one"));
            }
        }
        Ok(Self(of))
    }

    /// The one that a node calls.
    pub(super) fn called_by(&self, node: &NodeProto) -> Option<&'a FunctionProto> {
        self.0.get(&[domain(&node.domain), node.op_type.as_str(), node.overload.as_str()]).copied()
    }
}

/// A node whose place the nodes of a function take.
pub(super) struct Call<'a, 'n> {
    pub(super) function: &'a FunctionProto,
    /// How the node is called.
    pub(super) name: &'n str,
    pub(super) inputs: Vec<Option<ValueId>>,
    pub(super) outputs: Vec<Option<ValueId>>,
    pub(super) attributes: Vec<AttributeProto>,
}
