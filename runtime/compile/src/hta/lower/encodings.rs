//! Collects the encodings of values from the operators that produce and read them.

use std::collections::BTreeMap;

use udo_hta::Encoding;

use crate::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{GraphNode, ValueId};

/// The encodings of values; two encodings for a value on which operators disagree.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    of: BTreeMap<ValueId, Result<Encoding, [Encoding; 2]>>,
}

/// The encoding of values for which no operator states one, because it does not matter.
const ANY: Encoding = Encoding { scale: 1.0, zero_point: 0 };

impl Encodings {
    pub(super) fn collect(graph: &TypedGraph) -> Self {
        let mut encodings = Self::default();
        for bound in &graph.nodes {
            for (value, scale, zero) in stated(bound) {
                encodings.note(graph, value, [scale, zero]);
            }
        }
        // Operators that only move values keep their encoding.
        for _ in 0..2 {
            let forwards = graph.nodes.iter().chain(graph.nodes.iter().rev());
            for bound in forwards.filter(|bound| keeps(bound)) {
                let (x, y) = (bound.node.input(0), bound.node.output(0));
                if let (Some(x), Some(y)) = (x, y) {
                    encodings.spread(x, y);
                    encodings.spread(y, x);
                }
            }
        }
        encodings
    }

    /// Returns the encoding of a value.
    pub(super) fn get(&self, value: ValueId) -> Result<Encoding, String> {
        match self.of.get(&value) {
            None => Ok(ANY),
            Some(Ok(encoding)) => Ok(*encoding),
            Some(Err([one, other])) => Err(format!(
                "has a tensor of two encodings, {} around {} and {} around {}",
                one.scale, one.zero_point, other.scale, other.zero_point
            )),
        }
    }

    fn note(&mut self, graph: &TypedGraph, value: Option<ValueId>, of: [Option<ValueId>; 2]) {
        let Some(value) = value else { return };
        let [scale, zero] = of.map(|id| graph.known(id));
        let scale = scale.and_then(|scale| scale.get::<f32>()?.first().copied());
        let zero_point = match zero {
            None => Some(0),
            Some(zero) => zero.get::<u8>().and_then(|zero| zero.first().copied()),
        };
        if let Some((scale, zero_point)) = scale.zip(zero_point) {
            self.add(value, Encoding { scale, zero_point });
        }
    }

    fn add(&mut self, value: ValueId, encoding: Encoding) {
        let known = self.of.entry(value).or_insert(Ok(encoding));
        if let Ok(known_one) = *known
            && known_one != encoding
        {
            *known = Err([known_one, encoding]);
        }
    }

    fn spread(&mut self, from: ValueId, to: ValueId) {
        if let Some(&Ok(encoding)) = self.of.get(&from) {
            self.of.entry(to).or_insert(Ok(encoding));
        }
    }
}

/// Returns whether a node's output has the encoding of its input.
fn keeps(bound: &BoundNode) -> bool {
    let op = bound.op.schema().name();
    ["Flatten", "GlobalMaxPool", "MaxPool", "Reshape", "Resize", "Squeeze", "Unsqueeze"]
        .contains(&op)
        && bound.keeps_encoding()
}

/// A value with its scale and zero point.
type Stated = (Option<ValueId>, Option<ValueId>, Option<ValueId>);

/// Returns the encodings that a node states for its inputs and output.
fn stated(bound: &BoundNode) -> Vec<Stated> {
    let node = bound.node();
    let (input, output) = (|port| node.input(port), node.output(0));
    let places: (&[[usize; 3]], [usize; 2]) = match bound.op.schema().name() {
        "QLinearConv" | "QLinearMatMul" | "QLinearMatMulAdd" => (&[[0, 1, 2]], [6, 7]),
        "QGemm" => (&[[0, 1, 2]], [7, 8]),
        "QLinearAdd" | "QLinearMul" => (&[[0, 1, 2], [3, 4, 5]], [6, 7]),
        "QLinearAveragePool" | "QLinearGlobalAveragePool" | "QLinearSoftmax" => {
            (&[[0, 1, 2]], [3, 4])
        }
        "QLinearConcat" => {
            let parts = (2..node.inputs.len()).step_by(3);
            let parts = parts.map(|at| (input(at), input(at + 1), input(at + 2)));
            return parts.chain([(output, input(0), input(1))]).collect();
        }
        _ => return Vec::new(),
    };
    let (read, [scale, zero]) = places;
    let read = read.iter().map(|&[x, scale, zero]| (input(x), input(scale), input(zero)));
    read.chain([(output, input(scale), input(zero))]).collect()
}
