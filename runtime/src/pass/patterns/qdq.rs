//! Reads the fixed-point form of values from the model's `QuantizeLinear` and `DequantizeLinear` nodes.
//!
//! A real value that comes out of a dequantize node, or that quantize nodes of one encoding alone read, has the
//! encoding that the node states. A fixed-point core may then hold it as codes.

use udo_api::{DType, Encoding, Facts, TensorDesc};

use crate::graph::{Graph, Node, ValueId};
use crate::memory::Tensor;
use crate::resolve::Resolved;

/// The fixed-point form of each value that has one.
pub fn fixed_forms(resolved: &Resolved) -> Vec<Option<TensorDesc>> {
    let mut forms = Forms {
        of: vec![None; resolved.graph.values.len()],
        readers: readers(&resolved.graph),
        resolved,
    };
    let nodes = &resolved.graph.nodes;
    let keeps = |at| keeps_encoding(resolved, at);
    for node in nodes.iter().filter(|node| node.op == "DequantizeLinear") {
        forms.set(node.output(0), forms.stated(node, node.input(0)));
    }
    // An operator that keeps an encoding copies codes, whatever its output's reader would like.
    for (_, node) in nodes.iter().enumerate().filter(|(at, _)| keeps(*at)) {
        forms.set(node.output(0), forms.get(node.input(0)));
    }
    for (at, node) in nodes.iter().enumerate().rev() {
        if keeps(at) || node.op == "QuantizeLinear" {
            forms.set_as_read(node.input(0));
        }
    }
    forms.of
}

/// Whether the output of the node at `at` has the encoding of its first input.
fn keeps_encoding(resolved: &Resolved, at: usize) -> bool {
    let binding = resolved.bindings.get(at);
    binding.is_some_and(|b| b.op.schema().known_facts().has(Facts::SAME_ENCODING))
}

/// Fixed-point forms, as far as they are known.
struct Forms<'a> {
    of: Vec<Option<TensorDesc>>,
    /// The nodes that read each value as their first input, and nothing where someone reads it otherwise.
    readers: Vec<Option<Vec<usize>>>,
    resolved: &'a Resolved,
}

fn readers(graph: &Graph) -> Vec<Option<Vec<usize>>> {
    let mut readers = vec![Some(Vec::new()); graph.values.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for (port, value) in node.inputs.iter().enumerate() {
            let Some(slot) = value.and_then(|v| readers.get_mut(v.index())) else { continue };
            match slot {
                Some(nodes) if port == 0 => nodes.push(at),
                _ => *slot = None,
            }
        }
    }
    // The caller reads outputs.
    for value in &graph.outputs {
        if let Some(slot) = readers.get_mut(value.index()) {
            *slot = None;
        }
    }
    readers
}

/// An element type and an encoding.
type Codes = (DType, Encoding);

impl Forms<'_> {
    fn get(&self, value: Option<ValueId>) -> Option<Codes> {
        let form = value.and_then(|v| self.of.get(v.index()).copied().flatten())?;
        Some((form.dtype()?, form.encoding()?))
    }

    /// Gives a real value that has no form yet this one.
    fn set(&mut self, value: Option<ValueId>, codes: Option<Codes>) {
        let desc = self.resolved.desc(value);
        let (Some((dtype, encoding)), Some(DType::F32)) = (codes, desc.dtype()) else { return };
        if let Some(slot) = value.and_then(|v| self.of.get_mut(v.index())).filter(|s| s.is_none()) {
            *slot = Some(desc.with_dtype(dtype).with_encoding(encoding));
        }
    }

    /// Gives a value the form that all who read it ask for, if they do: whoever does not would get other
    /// numbers than the model says.
    fn set_as_read(&mut self, value: Option<ValueId>) {
        let readers = value.and_then(|v| self.readers.get(v.index())?.as_ref());
        let mut asked = readers.into_iter().flatten().map(|&at| self.asked_by(at));
        if let Some(first) = asked.next().filter(|first| asked.all(|other| other == *first)) {
            self.set(value, first);
        }
    }

    /// The codes in which the node at `at` would take its first input.
    fn asked_by(&self, at: usize) -> Option<Codes> {
        let node = self.resolved.graph.nodes.get(at)?;
        match node.op.as_str() {
            "QuantizeLinear" => self.stated(node, node.output(0)),
            _ if keeps_encoding(self.resolved, at) => self.get(node.output(0)),
            _ => None,
        }
    }

    /// The codes that a quantize or dequantize node states.
    fn stated(&self, node: &Node, codes: Option<ValueId>) -> Option<Codes> {
        let scale = one::<f32>(self.resolved.constant(node.input(1))?)?;
        let zero_point = match node.input(2) {
            None => 0,
            Some(value) => one_code(self.resolved.constant(Some(value))?)?,
        };
        let dtype = self.resolved.desc(codes).dtype()?;
        (scale.is_finite() && scale > 0.0).then_some((dtype, Encoding { scale, zero_point }))
    }
}

fn one<T: udo_api::Element>(tensor: &Tensor) -> Option<T> {
    match tensor.get::<T>()? {
        [value] => Some(*value),
        _ => None,
    }
}

fn one_code(tensor: &Tensor) -> Option<i32> {
    one::<u8>(tensor)
        .map(i32::from)
        .or_else(|| one::<i8>(tensor).map(i32::from))
        .or_else(|| one::<u16>(tensor).map(i32::from))
        .or_else(|| one::<i16>(tensor).map(i32::from))
        .or_else(|| one::<i32>(tensor))
}
