//! Reads the encodings of values from the model's `QuantizeLinear` and `DequantizeLinear` nodes (QDQ format).
//!
//! A float value has an encoding, per tensor or per axis, if a `DequantizeLinear` node computes it, or if all its
//! consumers are `QuantizeLinear` nodes with the same encoding. A fixed-point core may then store it quantized.

use udo_api::{AxisEncoding, DType, Element, Encoding, Encodings, Facts, resolve_axis};
use udo_host::ParamSetting;

use super::range_propagation::derived;
use crate::resolve::{BoundNode, Quantized, TypedGraph};
use udo_graph::graph::{Links, NodeReads, Read, Source, ValueId};
use udo_graph::memory::Tensor;

/// Sets the encoding of each value for which the model states one; returns the number of these values.
pub(in crate::pass) fn propagate(graph: &mut TypedGraph) -> usize {
    let known = encodings(graph);
    let count = known.iter().flatten().count();
    for (value, quantized) in graph.values.iter_mut().zip(known) {
        // A default's encoding is known before any pass.
        let default = value.quantized.filter(|_| matches!(value.value.source, Source::Constant(_)));
        value.quantized = quantized.or(default);
    }
    count
}

fn encodings(graph: &TypedGraph) -> Vec<Option<Quantized>> {
    let mut known =
        Known { encodings: vec![None; graph.values.len()], readers: readers(graph), graph };
    for bound in graph.nodes.iter().filter(|bound| bound.node.op == "DequantizeLinear") {
        known.set(bound.node.output(0), known.stated(bound, bound.node.input(0)));
    }
    // A node that keeps its input's encoding copies quantized values, even if its consumers request another encoding.
    for bound in graph.nodes.iter().filter(|bound| bound.keeps_encoding()) {
        let encoding = known.get(bound.node.input(0));
        let encoding = encoding.filter(|encoding| known.can_share(bound, *encoding));
        for &output in &bound.node.outputs {
            known.set(output, encoding);
        }
    }
    for bound in graph.nodes.iter().rev() {
        if bound.keeps_encoding() || bound.node.op == "QuantizeLinear" {
            known.set_as_read(bound.node.input(0));
        }
    }
    known.encodings
}

/// Derives encodings of further values from those of their node's inputs; returns the number of these values.
pub(in crate::pass) fn derive(graph: &mut TypedGraph) -> usize {
    let encodings = graph.values.iter().map(|value| value.quantized).collect();
    let mut known = Known { encodings, readers: Vec::new(), graph };
    let before = known.encodings.iter().flatten().count();
    let consumers = graph.consumers();
    let is_read = |id: &ValueId| {
        graph.outputs.contains(id) || consumers.get(*id).is_some_and(|readers| !readers.is_empty())
    };
    for bound in &graph.nodes {
        let shared = bound.keeps_encoding().then(|| known.get(bound.node.input(0))).flatten();
        let shared = shared.filter(|encoding| known.can_share(bound, *encoding));
        let encoding = shared.or_else(|| derived(graph, bound, |value| known.get(Some(value))));
        let unread = bound.node.outputs.iter().flatten().filter(|id| before > 0 && !is_read(id));
        for output in unread {
            known.set(Some(*output), Some(UNUSED));
        }
        for &output in bound.node.outputs.iter().take(if shared.is_some() { usize::MAX } else { 1 })
        {
            known.set(output, encoding);
        }
    }
    let Known { encodings, .. } = known;
    let count = encodings.iter().flatten().count() - before;
    for (value, quantized) in graph.values.iter_mut().zip(encodings) {
        value.quantized = quantized;
    }
    count
}

/// The encoding of values that nothing reads.
const UNUSED: Quantized = Quantized {
    dtype: DType::U8,
    encodings: Encodings::PerTensor(Encoding { scale: 1.0, zero_point: 0 }),
};

/// Operators that keep the encoding and compute weighted means.
const MEANS: &[&str] = &["AveragePool", "GlobalAveragePool", "Resize"];

/// The encodings that are known so far.
struct Known<'a> {
    encodings: Vec<Option<Quantized>>,
    /// The nodes that read each value as their first input; `None` if a node reads it at another port.
    readers: Vec<Option<Vec<&'a BoundNode>>>,
    graph: &'a TypedGraph,
}

fn readers(graph: &TypedGraph) -> Vec<Option<Vec<&BoundNode>>> {
    let mut readers = vec![Some(Vec::new()); graph.values.len()];
    for bound in &graph.nodes {
        for (read, value) in bound.node.reads() {
            let Some(slot) = readers.get_mut(value.index()) else { continue };
            match (slot.as_mut(), read) {
                (Some(nodes), Read::Input(0)) => nodes.push(bound),
                (_, Read::Input(_) | Read::Capture) => *slot = None,
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
        self.encodings.get(value?.index()).copied().flatten()
    }

    /// Sets the encoding of a float value if none is known yet.
    fn set(&mut self, value: Option<ValueId>, quantized: Option<Quantized>) {
        let is_float = self.graph.desc(value).dtype() == Some(DType::F32);
        if let Some(slot) =
            value.and_then(|v| self.encodings.get_mut(v.index())).filter(|_| is_float)
        {
            *slot = slot.or(quantized);
        }
    }

    /// Sets the encoding that all consumers of a value request. A consumer that requests none must get the model's
    /// exact values; the value then has no encoding.
    fn set_as_read(&mut self, value: Option<ValueId>) {
        let readers = value.and_then(|v| self.readers.get(v.index())?.as_ref());
        let mut requested = readers.into_iter().flatten().map(|bound| self.requested_by(bound));
        if let Some(first) = requested.next().filter(|first| requested.all(|other| other == *first))
        {
            self.set(value, first);
        }
    }

    /// Returns the encoding that a node requests for its first input.
    fn requested_by(&self, bound: &BoundNode) -> Option<Quantized> {
        match bound.node.op.as_str() {
            "QuantizeLinear" => self.stated(bound, bound.node.output(0)),
            // A mean's operands may saturate although the mean itself does not.
            op if bound.keeps_encoding() && !MEANS.contains(&op) => {
                let outputs = bound.node.outputs.iter().filter(|output| output.is_some());
                let mut requested = outputs.map(|output| self.get(*output));
                let first = requested.next()?.filter(|encoding| self.can_share(bound, *encoding));
                first.filter(|_| requested.all(|other| other == first))
            }
            _ => None,
        }
    }

    /// Returns whether the input and output of a node that keeps encodings can share this one. The position of an axis
    /// is known only for views that keep the shape.
    fn can_share(&self, bound: &BoundNode, quantized: Quantized) -> bool {
        let shape = |value| self.graph.desc(value).full_shape();
        match quantized.encodings {
            Encodings::PerTensor(_) => true,
            Encodings::PerAxis(_) => {
                bound.op.schema().known_facts().has(Facts::VIEW)
                    && shape(bound.node.input(0)) == shape(bound.node.output(0))
            }
        }
    }

    /// Returns the encoding that a quantize or dequantize node states.
    fn stated(&self, bound: &BoundNode, stored: Option<ValueId>) -> Option<Quantized> {
        let scales = self.graph.known(bound.node.input(1))?;
        let numbers = scales.get::<f32>()?;
        let zero_points = match bound.node.input(2) {
            None => vec![0; numbers.len()],
            Some(value) => integers(self.graph.known(Some(value))?)?,
        };
        let desc = self.graph.desc(stored);
        let encodings = if let (&[scale], &[zero_point]) = (numbers, zero_points.as_slice()) {
            let is_valid = scale.is_finite() && scale > 0.0;
            is_valid.then_some(Encodings::PerTensor(Encoding { scale, zero_point }))?
        } else {
            let is_vector = scales.desc().rank() == 1 && param(bound, "block_size") == Some(0);
            let axis = resolve_axis(param(bound, "axis").filter(|_| is_vector)?, desc.rank())?;
            Encodings::PerAxis(AxisEncoding::intern(axis, numbers, &zero_points).ok()?)
        };
        desc.with_encodings(encodings).check_encoding().ok()?;
        Some(Quantized { dtype: desc.dtype()?, encodings })
    }
}

/// Returns an integer parameter of a node.
fn param(bound: &BoundNode, name: &str) -> Option<i64> {
    match bound.params.settings().iter().find(|(known, _)| *known == name)? {
        (_, ParamSetting::Int(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the elements of a tensor of quantized values.
fn integers(tensor: &Tensor) -> Option<Vec<i32>> {
    fn widened<T: Element>(tensor: &Tensor) -> Option<Vec<i32>>
    where
        i32: From<T>,
    {
        tensor.get::<T>().map(|values| values.iter().copied().map(i32::from).collect())
    }
    widened::<u8>(tensor)
        .or_else(|| widened::<i8>(tensor))
        .or_else(|| widened::<u16>(tensor))
        .or_else(|| widened::<i16>(tensor))
        .or_else(|| widened::<i32>(tensor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use udo_graph::graph::{Attr, Graph};

    #[test]
    fn captured_values_get_no_encoding_from_their_consumers() {
        let text = "graph captured
          input x: f32[2]
          constant s: f32[]{0.5}
          h = Identity@21(x)
          q = QuantizeLinear@21(h, s)
          y = Relu@21(x)
          output q, y
        ";
        for captures in [false, true] {
            let graph = Graph::parse(text).unwrap();
            let mut graph = testing::resolved(&testing::resources(), graph);
            let h = graph.value_named("h").unwrap();
            if captures {
                let mut inner = Graph::new("inner");
                inner.add_capture("h", h);
                let attr = ("body".to_owned(), Attr::Graph(Box::new(inner)));
                graph.nodes.last_mut().unwrap().node.attrs.push(attr);
            }
            propagate(&mut graph);
            assert_eq!(graph.quantized(Some(h)).is_none(), captures);
        }
    }
}
