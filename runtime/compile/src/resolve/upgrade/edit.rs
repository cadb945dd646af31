//! The operations on a node that upgrades are made of: take attributes, set inputs, and add a producer or a consumer.

use udo_api::{DType, Shape, TensorDesc};

use super::MICROSOFT;
use crate::compiler::Compiler;
use crate::resolve::TypedGraph;
use crate::resolve::bind_builtin;
use udo_engine::cores::convert;
use udo_graph::graph::{Attr, NEWEST, Node, ValueId};
use udo_graph::memory::Tensor;

/// A node that is being upgraded. Nodes added before it are bound and go into the graph at once; nodes added after it
/// wait in `consumers` until the node itself is bound.
pub(super) struct Edit<'a> {
    pub(super) compiler: &'a Compiler<'a>,
    pub(super) graph: &'a mut TypedGraph,
    pub(super) node: &'a mut Node,
    pub(super) consumers: &'a mut Vec<Node>,
}

impl Edit<'_> {
    /// Returns the description of an input; absent if the node omits it.
    pub(super) fn input(&self, port: usize) -> TensorDesc {
        self.graph.desc(self.node.input(port))
    }

    /// Changes the operator to one with the same inputs and attributes.
    pub(super) fn rename(&mut self, domain: &str, op: &str) {
        domain.clone_into(&mut self.node.domain);
        op.clone_into(&mut self.node.op);
    }

    /// Removes and returns an attribute.
    pub(super) fn take(&mut self, name: &str) -> Option<Attr> {
        let index = self.node.attrs.iter().position(|(n, _)| n == name)?;
        let (_, attr) = self.node.attrs.remove(index);
        Some(attr)
    }

    pub(super) fn take_int(&mut self, name: &str) -> Result<Option<i64>, String> {
        self.take_as(name, "an integer", |attr| match attr {
            Attr::Int(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn take_ints(&mut self, name: &str) -> Result<Option<Vec<i64>>, String> {
        self.take_as(name, "a list of integers", |attr| match attr {
            Attr::Ints(values) => Some(values.clone()),
            _ => None,
        })
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a real attribute written as an integer is small"
    )]
    pub(super) fn take_float(&mut self, name: &str) -> Result<Option<f64>, String> {
        self.take_as(name, "a number", |attr| match attr {
            Attr::Float(value) => Some(*value),
            Attr::Int(value) => Some(*value as f64),
            _ => None,
        })
    }

    pub(super) fn take_floats(&mut self, name: &str) -> Result<Option<Vec<f64>>, String> {
        self.take_as(name, "a list of numbers", |attr| match attr {
            Attr::Floats(values) => Some(values.clone()),
            _ => None,
        })
    }

    pub(super) fn take_text(&mut self, name: &str) -> Result<Option<String>, String> {
        self.take_as(name, "a string", |attr| match attr {
            Attr::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// Removes an attribute and returns its value as `read` reads it.
    fn take_as<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl Fn(&Attr) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(attr) = self.take(name) else { return Ok(None) };
        let error = || format!("attribute {name:?} is {attr}, expected {expected}");
        read(&attr).map(Some).ok_or_else(error)
    }

    /// Adds an attribute.
    pub(super) fn set(&mut self, name: &str, attr: Attr) {
        self.node.attrs.push((name.to_owned(), attr));
    }

    /// Makes an input a constant scalar of the type of input 0.
    pub(super) fn set_number(&mut self, port: usize, name: &str, value: f64) -> Result<(), String> {
        let number = self.number(name, value)?;
        set_input(self.node, port, number);
        Ok(())
    }

    /// Adds a constant scalar of the type of input 0.
    pub(super) fn number(&mut self, name: &str, value: f64) -> Result<ValueId, String> {
        self.numbers_like(0, name, &[], &[value])
    }

    /// Adds a constant of the type of an input.
    pub(super) fn numbers_like(
        &mut self,
        port: usize,
        name: &str,
        extents: &[usize],
        values: &[f64],
    ) -> Result<ValueId, String> {
        let dtype = self.input(port).dtype().ok_or_else(|| format!("input {port} is missing"))?;
        let shape = Shape::new(extents).map_err(|e| e.to_string())?;
        let tensor = convert::from_numbers(dtype, shape, values);
        Ok(self.constant(name, tensor.map_err(|e| e.to_string())?))
    }

    /// Makes an input a constant list of integers.
    pub(super) fn set_ints(
        &mut self,
        port: usize,
        name: &str,
        values: &[i64],
    ) -> Result<(), String> {
        let list = self.list(name, values)?;
        set_input(self.node, port, list);
        Ok(())
    }

    /// Adds a constant list of integers.
    pub(super) fn list(&mut self, name: &str, values: &[i64]) -> Result<ValueId, String> {
        Ok(self.constant(name, list(values)?))
    }

    /// Makes an input a constant list of f32 numbers.
    pub(super) fn set_floats(
        &mut self,
        port: usize,
        name: &str,
        values: &[f64],
    ) -> Result<(), String> {
        let shape = Shape::new(&[values.len()]).map_err(|e| e.to_string())?;
        let tensor = convert::from_numbers(DType::F32, shape, values);
        self.set_constant(port, name, tensor.map_err(|e| e.to_string())?);
        Ok(())
    }

    pub(super) fn set_constant(&mut self, port: usize, name: &str, tensor: Tensor) {
        let id = self.constant(name, tensor);
        set_input(self.node, port, id);
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.graph.add_constant(&format!("{}.{name}", self.node.name), tensor)
    }

    /// Returns an input, or an error if the node omits it.
    pub(super) fn required(&self, port: usize) -> Result<ValueId, String> {
        self.node.input(port).ok_or_else(|| format!("input {port} is missing"))
    }

    /// Returns an output, or an error if the node omits it.
    pub(super) fn required_output(&self, port: usize) -> Result<ValueId, String> {
        self.node.output(port).ok_or_else(|| format!("output {port} is missing"))
    }

    /// Adds a node of a built-in operator after this one and after those added earlier.
    pub(super) fn after(&mut self, name: &str, node: Node, output: ValueId) {
        let name = format!("{}.{name}", self.node.name);
        self.consumers.push(Node { name, outputs: vec![Some(output)], ..node });
    }

    /// Adds a node of a built-in operator before this one, and returns its output: an output of this node if one is
    /// passed, else a new value.
    pub(super) fn first(
        &mut self,
        name: &str,
        node: Node,
        output: Option<ValueId>,
    ) -> Result<ValueId, String> {
        let output = output.unwrap_or_else(|| self.value(name));
        self.first_of(name, node, vec![Some(output)])?;
        Ok(output)
    }

    /// Adds a node of a built-in operator with these outputs before this one.
    pub(super) fn first_of(
        &mut self,
        name: &str,
        node: Node,
        outputs: Vec<Option<ValueId>>,
    ) -> Result<(), String> {
        let node = Node { name: format!("{}.{name}", self.node.name), outputs, ..node };
        bind_builtin(self.compiler, self.graph, node).map_err(|e| e.to_string())
    }

    /// Splits a value along an axis into named parts of these lengths.
    pub(super) fn split<const N: usize>(
        &mut self,
        name: &str,
        from: ValueId,
        axis: i64,
        parts: [(&str, i64); N],
    ) -> Result<[ValueId; N], String> {
        let lengths = self.list(&format!("{name}.lengths"), &parts.map(|(_, len)| len))?;
        let node = with_int(new_node("Split", &[from, lengths]), "axis", axis);
        let outputs = parts.map(|(part, _)| self.value(&format!("{name}.{part}")));
        self.first_of(name, node, outputs.map(Some).to_vec())?;
        Ok(outputs)
    }

    /// Adds a value for the nodes that this one becomes.
    pub(super) fn value(&mut self, name: &str) -> ValueId {
        self.graph.add_value(&format!("{}.{name}", self.node.name))
    }

    /// Turns the node into one of ONNX's operators, with these inputs.
    pub(super) fn end(&mut self, op: &str, inputs: &[ValueId]) {
        let Node { inputs, op, opset, domain, .. } = new_node(op, inputs);
        (self.node.inputs, self.node.op, self.node.opset) = (inputs, op, opset);
        self.node.domain = domain;
    }

    /// Turns the node into one of ONNX Runtime's own operators.
    pub(super) fn end_own(&mut self, op: &str, inputs: Vec<Option<ValueId>>) {
        let Node { op, opset, domain, .. } = own_node(op, &[]);
        (self.node.inputs, self.node.op, self.node.opset) = (inputs, op, opset);
        self.node.domain = domain;
    }

    /// Inserts a node of a built-in operator before an input.
    pub(super) fn before(&mut self, port: usize, added: &Added<'_>) -> Result<(), String> {
        let from = self.required(port)?;
        let (node, between) = self.added(added)?;
        let node = Node { inputs: [&[Some(from)], &*node.inputs].concat(), ..node };
        let node = Node { outputs: vec![Some(between)], ..node };
        bind_builtin(self.compiler, self.graph, node).map_err(|e| e.to_string())?;
        set_input(self.node, port, between);
        Ok(())
    }

    /// Inserts a node of a built-in operator after an output, if the output is used.
    pub(super) fn insert_after(&mut self, port: usize, added: &Added<'_>) -> Result<(), String> {
        let Some(final_output) = self.node.output(port) else { return Ok(()) };
        let (node, between) = self.added(added)?;
        let node = Node { inputs: [&[Some(between)], &*node.inputs].concat(), ..node };
        // Insert it before the nodes of earlier upgrades, which read its output.
        self.consumers.insert(0, Node { outputs: vec![Some(final_output)], ..node });
        if let Some(output) = self.node.outputs.get_mut(port) {
            *output = Some(between);
        }
        Ok(())
    }

    /// Returns the added node without its first input and its output, and a new value between it and this node.
    fn added(&mut self, added: &Added<'_>) -> Result<(Node, ValueId), String> {
        let mut node = new_node(added.op, &[]);
        node.name = format!("{}.{}", self.node.name, added.op.to_lowercase());
        if let Some((name, values)) = added.list {
            let name = format!("{}.{name}", node.name);
            node.inputs.push(Some(self.graph.add_constant(&name, list(values)?)));
        }
        let attr = added.attr.map(|(name, value)| (name.to_owned(), Attr::Int(value)));
        node.attrs.extend(attr);
        let between = self.graph.add_value(&node.name);
        Ok((node, between))
    }
}

/// A node with one input and one output that an upgrade adds.
pub(super) struct Added<'a> {
    pub(super) op: &'a str,
    /// Its second input, if any: the name and elements of a constant list.
    pub(super) list: Option<(&'a str, &'a [i64])>,
    /// Its attribute, if any.
    pub(super) attr: Option<(&'a str, i64)>,
}

/// Returns a node of an ONNX operator, without name and outputs.
pub(super) fn new_node(op: &str, inputs: &[ValueId]) -> Node {
    Node::new(op, NEWEST, inputs, &[])
}

/// Returns a node of one of ONNX Runtime's own operators, without name and outputs.
pub(super) fn own_node(op: &str, inputs: &[ValueId]) -> Node {
    Node { domain: MICROSOFT.to_owned(), ..Node::new(op, 1, inputs, &[]) }
}

/// Returns the node with an integer attribute.
pub(super) fn with_int(mut node: Node, name: &str, value: i64) -> Node {
    node.attrs.push((name.to_owned(), Attr::Int(value)));
    node
}

/// Returns the node with a list attribute.
pub(super) fn with_ints(mut node: Node, name: &str, values: &[i64]) -> Node {
    node.attrs.push((name.to_owned(), Attr::Ints(values.to_vec())));
    node
}

fn list(values: &[i64]) -> Result<Tensor, String> {
    let shape = Shape::new(&[values.len()]).map_err(|e| e.to_string())?;
    Tensor::from_slice(shape, values).map_err(|e| e.to_string())
}

fn set_input(node: &mut Node, port: usize, value: ValueId) {
    node.inputs.resize(node.inputs.len().max(port + 1), None);
    if let Some(input) = node.inputs.get_mut(port) {
        *input = Some(value);
    }
}
