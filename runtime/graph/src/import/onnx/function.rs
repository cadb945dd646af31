//! Functions of a model: nodes that stand in the place of each node that calls one.
//!
//! A call is a scope of names within the graph of the node. What a body calls its inputs and outputs are values that the node
//! reads and makes; its other values, and its nodes, are called after the node: `call/name`.

use std::collections::HashMap;
use std::fmt::Arguments;
use std::mem;

use super::ImportError;
use super::attribute::type_of;
use super::opsets::Opsets;
use super::proto::{AttributeProto, FunctionProto};
use super::scope::{Call, Scope};
use super::state::Import;
use crate::graph::{Node, ValueId};

/// The most calls that are within each other.
const MAX_CALLS: usize = 64;

/// The most nodes that come from functions: a few functions that call each other twice are a great many.
const MAX_NODES: usize = 1 << 17;

impl<'a> Import<'a> {
    /// Adds the nodes of a function that a node calls.
    pub(super) fn call(&mut self, call: Call<'a, '_>) -> Result<(), ImportError> {
        let place = format_args!("node {:?}", call.name);
        self.check_call(place, &call)?;
        let Call { function, name, inputs, outputs, attributes: given } = call;
        let defaults = function.attribute_proto.iter().cloned();
        let attributes = defaults.chain(given).map(|proto| (proto.name.clone(), proto)).collect();
        let opsets = Opsets::of(&function.opset_import)?;
        let input = |port: usize| inputs.get(port).copied().flatten();
        let ports = function.input.iter().enumerate();
        let absent = ports.filter(|&(port, _)| input(port).is_none());
        let scope = Scope {
            function: Some(function),
            prefix: format!("{name}/"),
            attributes,
            opsets,
            absent: absent.map(|(_, name)| name.as_str()).collect(),
            hidden: self.outer.len(),
        };
        let caller = mem::replace(&mut self.scope, scope);
        let names = mem::take(&mut self.level.ids);
        self.calls.push(function);
        self.body(function, &input, &outputs)?;
        self.calls.pop();
        (self.scope, self.level.ids) = (caller, names);
        Ok(())
    }

    fn check_call(&self, place: Arguments<'_>, call: &Call<'a, '_>) -> Result<(), ImportError> {
        let Call { function, inputs, outputs, .. } = call;
        let name = &function.name;
        if self.calls.iter().any(|active| std::ptr::eq(*active, *function)) {
            let found = format!("function {name:?}, which calls itself");
            return Err(ImportError::malformed(place, found, "functions without recursion"));
        }
        if self.calls.len() >= MAX_CALLS {
            let found = format!("function {name:?} within {MAX_CALLS} others");
            return Err(ImportError::unsupported(place, found, "fewer"));
        }
        let counts = [
            ("inputs", inputs.len(), function.input.len()),
            ("outputs", outputs.len(), function.output.len()),
        ];
        match counts.into_iter().find(|(_, given, taken)| given > taken) {
            None => Ok(()),
            Some((what, given, taken)) => {
                let found = format!("{given} {what}");
                let wanted = format!("at most {taken}, as function {name:?} has");
                Err(ImportError::malformed(place, found, wanted))
            }
        }
    }

    fn body(
        &mut self,
        function: &'a FunctionProto,
        input: &dyn Fn(usize) -> Option<ValueId>,
        outputs: &[Option<ValueId>],
    ) -> Result<(), ImportError> {
        let place = self.place();
        for (port, name) in function.input.iter().enumerate() {
            if let Some(id) = input(port) {
                self.level.define(name, id, format_args!("{place}"))?;
            }
        }
        let given = function.output.iter().zip(outputs);
        let given = given.filter_map(|(name, id)| Some((name, (*id)?)));
        self.made = given.map(|(name, id)| (name.to_owned(), id)).collect();
        let count = self.inlined.saturating_add(function.node.len());
        if count > MAX_NODES {
            let found = format!("more than {MAX_NODES} nodes of functions");
            return Err(ImportError::unsupported(format_args!("{place}"), found, "fewer"));
        }
        self.inlined = count;
        let nodes = self.values_of_nodes(function.node.clone())?;
        let missing = mem::take(&mut self.made);
        for (index, node) in nodes {
            self.node(index, node)?;
        }
        self.pass_through(missing)
    }

    /// Where messages say that the nodes are that are being read.
    fn place(&self) -> String {
        let name = self.scope.function.map_or("", |function| &function.name);
        format!("node {:?} function {name:?}", self.scope.prefix.trim_end_matches('/'))
    }

    /// Outputs of a function that no node of it makes: they are inputs of it.
    fn pass_through(&mut self, missing: HashMap<String, ValueId>) -> Result<(), ImportError> {
        let mut missing: Vec<_> = missing.into_iter().map(|(name, id)| (id, name)).collect();
        missing.sort_unstable();
        for (output, name) in missing {
            let place = format!("{} output {name:?}", self.place());
            let input = self.id(&name, || place.clone())?;
            let opset = self.version(format_args!("{place}"), "")?;
            let mut node = Node::new("Identity", opset, &[input], &[output]);
            node.name = format!("{}{name}", self.scope.prefix);
            self.level.graph.add_node(node);
        }
        Ok(())
    }

    /// Whether a name is that of a function's input which the node leaves out.
    pub(super) fn is_left_out(&self, name: &str) -> bool {
        self.scope.absent.contains(name) && !self.level.ids.contains_key(name)
    }

    /// The attributes of a node, those of a function's with what they refer to in their place.
    pub(super) fn given(
        &self,
        node: &str,
        protos: Vec<AttributeProto>,
    ) -> Result<Vec<AttributeProto>, ImportError> {
        let given = |proto: AttributeProto| {
            let name = proto.name.clone();
            self.referred(format_args!("node {node:?} attribute {name:?}"), proto)
        };
        protos.into_iter().filter_map(|proto| given(proto).transpose()).collect()
    }

    /// An attribute of a node of a function, with what it refers to in its place; none where the function has none either.
    fn referred(
        &self,
        place: Arguments<'_>,
        proto: AttributeProto,
    ) -> Result<Option<AttributeProto>, ImportError> {
        let name = &proto.ref_attr_name;
        let Some(function) = self.scope.function.filter(|_| !name.is_empty()) else {
            return Ok(Some(proto));
        };
        let Some(given) = self.scope.attributes.get(name) else {
            if function.attribute.contains(name) {
                return Ok(None);
            }
            let found = format!("a reference to attribute {name:?}");
            let wanted = format!("one that function {:?} has", function.name);
            return Err(ImportError::malformed(place, found, wanted));
        };
        let is_alike = proto.r#type == AttributeProto::UNDEFINED || proto.r#type == type_of(given);
        if !is_alike {
            let found = format!("attribute {name:?} of type {}", type_of(given));
            return Err(ImportError::malformed(place, found, format!("type {}", proto.r#type)));
        }
        if given.g.is_some() || !given.graphs.is_empty() {
            let found = format!("a reference to attribute {name:?}, which is a graph,");
            return Err(ImportError::unsupported(place, found, "a value"));
        }
        Ok(Some(AttributeProto { name: proto.name, ..given.clone() }))
    }

    /// The value that an output of a node is called in this graph, new unless the node that calls a function makes it.
    pub(super) fn made_as(&mut self, name: &str) -> ValueId {
        match self.made.remove(name) {
            Some(id) => id,
            None => self.level.graph.add_value(&format!("{}{name}", self.scope.prefix)),
        }
    }
}
