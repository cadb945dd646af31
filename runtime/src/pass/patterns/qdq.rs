//! Reads the encodings of values from the model's `QuantizeLinear` and `DequantizeLinear` nodes.
//!
//! A real value that comes out of a dequantize node, or that quantize nodes of one encoding alone read, has the
//! encoding that the node states. A fixed-point core may then hold it as quantized values.

use udo_api::{DType, Element, Encoding, Facts};

use crate::graph::ValueId;
use crate::memory::Tensor;
use crate::resolve::{BoundNode, Quantized, TypedGraph};

/// Says of each value how fixed-point cores may store it, where the model does.
pub(in crate::pass) fn propagate(graph: &mut TypedGraph) {
    let known = encodings(graph);
    for (value, quantized) in graph.values.iter_mut().zip(known) {
        value.quantized = quantized;
    }
}

fn encodings(graph: &TypedGraph) -> Vec<Option<Quantized>> {
    let mut known = Known { of: vec![None; graph.values.len()], readers: readers(graph), graph };
    for bound in graph.nodes.iter().filter(|bound| bound.node.op == "DequantizeLinear") {
        known.set(bound.node.output(0), known.stated(bound, bound.node.input(0)));
    }
    // An operator that keeps an encoding copies quantized values, whatever its output's reader would like.
    for bound in graph.nodes.iter().filter(|bound| keeps_encoding(bound)) {
        known.set(bound.node.output(0), known.get(bound.node.input(0)));
    }
    for bound in graph.nodes.iter().rev() {
        if keeps_encoding(bound) || bound.node.op == "QuantizeLinear" {
            known.set_as_read(bound.node.input(0));
        }
    }
    known.of
}

/// Whether a node's output has the encoding of its first input.
fn keeps_encoding(bound: &BoundNode) -> bool {
    bound.op.schema().known_facts().has(Facts::SAME_ENCODING)
}

/// How values are stored, as far as that is known.
struct Known<'a> {
    of: Vec<Option<Quantized>>,
    /// The nodes that read each value as their first input, and nothing where someone reads it otherwise.
    readers: Vec<Option<Vec<&'a BoundNode>>>,
    graph: &'a TypedGraph,
}

fn readers(graph: &TypedGraph) -> Vec<Option<Vec<&BoundNode>>> {
    let mut readers = vec![Some(Vec::new()); graph.values.len()];
    for bound in &graph.nodes {
        for (port, value) in bound.node.inputs.iter().enumerate() {
            let Some(slot) = value.and_then(|v| readers.get_mut(v.index())) else { continue };
            match slot {
                Some(nodes) if port == 0 => nodes.push(bound),
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

impl Known<'_> {
    fn get(&self, value: Option<ValueId>) -> Option<Quantized> {
        self.of.get(value?.index()).copied().flatten()
    }

    /// Gives a real value of which nothing is known yet this encoding.
    fn set(&mut self, value: Option<ValueId>, quantized: Option<Quantized>) {
        let real = self.graph.desc(value).dtype() == Some(DType::F32);
        if let Some(slot) = value.and_then(|v| self.of.get_mut(v.index())).filter(|_| real) {
            *slot = slot.or(quantized);
        }
    }

    /// Gives a value the encoding that all who read it ask for, if they do: whoever does not would get other
    /// numbers than the model says.
    fn set_as_read(&mut self, value: Option<ValueId>) {
        let readers = value.and_then(|v| self.readers.get(v.index())?.as_ref());
        let mut asked = readers.into_iter().flatten().map(|bound| self.asked_by(bound));
        if let Some(first) = asked.next().filter(|first| asked.all(|other| other == *first)) {
            self.set(value, first);
        }
    }

    /// The encoding in which a node would take its first input.
    fn asked_by(&self, bound: &BoundNode) -> Option<Quantized> {
        match bound.node.op.as_str() {
            "QuantizeLinear" => self.stated(bound, bound.node.output(0)),
            _ if keeps_encoding(bound) => self.get(bound.node.output(0)),
            _ => None,
        }
    }

    /// The encoding that a quantize or dequantize node states.
    fn stated(&self, bound: &BoundNode, stored: Option<ValueId>) -> Option<Quantized> {
        let scale = one::<f32>(self.graph.known(bound.node.input(1))?)?;
        let zero_point = match bound.node.input(2) {
            None => 0,
            Some(value) => one_quantized(self.graph.known(Some(value))?)?,
        };
        let dtype = self.graph.desc(stored).dtype()?;
        let encoding = Encoding { scale, zero_point };
        (scale.is_finite() && scale > 0.0).then_some(Quantized { dtype, encoding })
    }
}

fn one<T: Element>(tensor: &Tensor) -> Option<T> {
    match tensor.get::<T>()? {
        [value] => Some(*value),
        _ => None,
    }
}

fn one_quantized(tensor: &Tensor) -> Option<i32> {
    one::<u8>(tensor)
        .map(i32::from)
        .or_else(|| one::<i8>(tensor).map(i32::from))
        .or_else(|| one::<u16>(tensor).map(i32::from))
        .or_else(|| one::<i16>(tensor).map(i32::from))
        .or_else(|| one::<i32>(tensor))
}
