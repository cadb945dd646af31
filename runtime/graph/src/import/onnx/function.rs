//! Inlines functions of a model: a node that calls a function is replaced by the function's nodes.
//!
//! A call opens a scope of names within the graph of the calling node. The names of the function's inputs and outputs stand
//! for the values of the node. Its other values and its nodes get the name of the calling node as a prefix: `call/name`.

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

/// The maximum nesting depth of calls.
const MAX_CALLS: usize = 64;

/// The maximum number of nodes that all calls together may add. If each of `n` functions calls the next one twice, inlining
/// creates 2^`n` nodes.
const MAX_NODES: usize = 1 << 17;

impl<'a> Import<'a> {
    /// Adds the nodes of the function that a node calls.
    pub(super) fn call(&mut self, call: Call<'a, '_>) -> Result<(), ImportError> {
        let place = format_args!("node {:?}", call.name);
        self.check_call(place, &call)?;
        let Call { function, name, inputs, outputs, attributes } = call;
        let defaults = function.attribute_proto.iter().cloned();
        // The node's attributes replace defaults of the same name.
        let attributes = defaults.chain(attributes);
        let attributes = attributes.map(|proto| (proto.name.clone(), proto)).collect();
        let opsets = Opsets::from_imports(&function.opset_import)?;
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
        let caller_scope = mem::replace(&mut self.scope, scope);
        let caller_ids = mem::take(&mut self.level.ids);
        self.calls.push(function);
        self.body(function, &input, &outputs)?;
        self.calls.pop();
        (self.scope, self.level.ids) = (caller_scope, caller_ids);
        Ok(())
    }

    /// Checks the number of inputs and outputs of a call, and the nesting of calls.
    fn check_call(&self, place: Arguments<'_>, call: &Call<'a, '_>) -> Result<(), ImportError> {
        let Call { function, inputs, outputs, .. } = call;
        let name = &function.name;
        if self.calls.iter().any(|active| std::ptr::eq(*active, *function)) {
            let found = format!("function {name:?}, which calls itself");
            return Err(ImportError::malformed(place, found, "functions without recursion"));
        }
        if self.calls.len() >= MAX_CALLS {
            let found = format!("function {name:?} nested in {MAX_CALLS} calls");
            return Err(ImportError::unsupported(place, found, "fewer nested calls"));
        }
        let counts = [
            ("inputs", inputs.len(), function.input.len()),
            ("outputs", outputs.len(), function.output.len()),
        ];
        match counts.into_iter().find(|(_, count, max)| count > max) {
            None => Ok(()),
            Some((ports, count, max)) => {
                let found = format!("{count} {ports}");
                let expected = format!("at most {max}, as function {name:?} has");
                Err(ImportError::malformed(place, found, expected))
            }
        }
    }

    /// Adds the nodes of a function. `input` returns the value of an input; `outputs` are the values of the calling node.
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
        let used_outputs = function.output.iter().zip(outputs);
        let used_outputs = used_outputs.filter_map(|(name, id)| Some((name.to_owned(), (*id)?)));
        self.pending_outputs = used_outputs.collect();
        let count = self.inlined.saturating_add(function.node.len());
        if count > MAX_NODES {
            let found = format!("more than {MAX_NODES} nodes after inlining functions");
            return Err(ImportError::unsupported(format_args!("{place}"), found, "fewer nodes"));
        }
        self.inlined = count;
        let nodes = self.values_of_nodes(function.node.clone())?;
        let missing = mem::take(&mut self.pending_outputs);
        for (index, node) in nodes {
            self.node(index, node)?;
        }
        self.pass_through(missing)
    }

    /// Returns the place of the nodes that are being read, for messages.
    fn place(&self) -> String {
        let name = self.scope.function.map_or("", |function| &function.name);
        format!("node {:?} function {name:?}", self.scope.prefix.trim_end_matches('/'))
    }

    /// Adds an `Identity` node for each output of a function that is an input of it.
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

    /// Whether `name` is an input of the function that the calling node leaves out.
    pub(super) fn is_omitted(&self, name: &str) -> bool {
        self.scope.absent.contains(name) && !self.level.ids.contains_key(name)
    }

    /// Returns the attributes of a node. References to attributes of the enclosing function are replaced by their values.
    pub(super) fn resolve_attributes(
        &self,
        node: &str,
        protos: Vec<AttributeProto>,
    ) -> Result<Vec<AttributeProto>, ImportError> {
        let resolve = |proto: AttributeProto| {
            let name = proto.name.clone();
            self.resolve_reference(format_args!("node {node:?} attribute {name:?}"), proto)
        };
        protos.into_iter().filter_map(|proto| resolve(proto).transpose()).collect()
    }

    /// Resolves a reference to an attribute of the enclosing function. `None`: the caller left the attribute out, and it has
    /// no default.
    fn resolve_reference(
        &self,
        place: Arguments<'_>,
        proto: AttributeProto,
    ) -> Result<Option<AttributeProto>, ImportError> {
        let name = &proto.ref_attr_name;
        let Some(function) = self.scope.function.filter(|_| !name.is_empty()) else {
            return Ok(Some(proto));
        };
        let Some(value) = self.scope.attributes.get(name) else {
            if function.attribute.contains(name) {
                return Ok(None);
            }
            let found = format!("a reference to attribute {name:?}");
            let expected = format!("one that function {:?} has", function.name);
            return Err(ImportError::malformed(place, found, expected));
        };
        let value_type = type_of(value);
        if proto.r#type != AttributeProto::UNDEFINED && proto.r#type != value_type {
            let found = format!("attribute {name:?} of type {value_type}");
            return Err(ImportError::malformed(place, found, format!("type {}", proto.r#type)));
        }
        if value.g.is_some() || !value.graphs.is_empty() {
            let found = format!("a reference to attribute {name:?}, which is a graph");
            return Err(ImportError::unsupported(place, found, "a value"));
        }
        Ok(Some(AttributeProto { name: proto.name, ..value.clone() }))
    }

    /// Returns the value for the output `name` of a node: the calling node's value if it is an output of the function,
    /// otherwise a new one.
    pub(super) fn output_value(&mut self, name: &str) -> ValueId {
        match self.pending_outputs.remove(name) {
            Some(id) => id,
            None => self.level.graph.add_value(&format!("{}{name}", self.scope.prefix)),
        }
    }
}
