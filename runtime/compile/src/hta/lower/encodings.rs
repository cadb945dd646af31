//! Collects the encodings of values from the operators that produce and read them.

use std::collections::BTreeMap;

use udo_hta::Encoding;

use crate::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{GraphNode, ValueId};

/// The encodings of values; two encodings for a value on which operators disagree.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    by_value: BTreeMap<ValueId, Result<Encoding, [Encoding; 2]>>,
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
        // Operators that only move values keep their encoding. It spreads along chains of such nodes, forwards and
        // backwards; the second round covers branches.
        for _ in 0..2 {
            let passes = graph.nodes.iter().chain(graph.nodes.iter().rev());
            for bound in passes.filter(|bound| keeps(bound)) {
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
        match self.by_value.get(&value) {
            None => Ok(ANY),
            Some(Ok(encoding)) => Ok(*encoding),
            Some(Err([first, second])) => Err(format!(
                "has a tensor of two encodings, {} around {} and {} around {}",
                first.scale, first.zero_point, second.scale, second.zero_point
            )),
        }
    }

    fn note(
        &mut self,
        graph: &TypedGraph,
        value: Option<ValueId>,
        constants: [Option<ValueId>; 2],
    ) {
        let Some(value) = value else { return };
        let [scale, zero] = constants.map(|id| graph.known(id));
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
        let entry = self.by_value.entry(value).or_insert(Ok(encoding));
        if let Ok(first) = *entry
            && first != encoding
        {
            *entry = Err([first, encoding]);
        }
    }

    fn spread(&mut self, from: ValueId, to: ValueId) {
        if let Some(&Ok(encoding)) = self.by_value.get(&from) {
            self.by_value.entry(to).or_insert(Ok(encoding));
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
    // The ports of each input with its scale and zero point, and the ports of the output's scale and zero point.
    let ports: (&[[usize; 3]], [usize; 2]) = match bound.op.schema().name() {
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
    let (inputs, [scale, zero]) = ports;
    let inputs = inputs.iter().map(|&[x, scale, zero]| (input(x), input(scale), input(zero)));
    inputs.chain([(output, input(scale), input(zero))]).collect()
}
