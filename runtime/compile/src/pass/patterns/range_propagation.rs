//! Derives encodings of values without one from the ranges of their operands, by interval arithmetic. Fixed-point cores
//! need an encoding for every value, and quantized models state none for values that their converter expected to be
//! fused. The derived encodings use 16 bits, so they are finer than the 8-bit encodings around them.

use udo_api::{DType, Encoding, Encodings};

use crate::resolve::{BoundNode, Quantized, TypedGraph};
use udo_graph::graph::ValueId;

/// The lower and upper bound of a value's elements.
type Range = [f64; 2];

/// Computes the range of a node's output from those of its inputs.
type Rule = fn(&[Range], &BoundNode) -> Option<Range>;

/// Operators with a rule.
const RULES: &[(&str, Rule)] = &[
    ("Abs", |inputs, _| Some(hull(&[0.0, magnitude(*inputs.first()?)]))),
    ("Add", |inputs, _| Some(sum(inputs))),
    ("AveragePool", first),
    ("Clip", clipped),
    ("Concat", |inputs, _| Some(hull(inputs.as_flattened()))),
    ("Div", |inputs, _| {
        binary(inputs, |a, b| a / b).filter(|_| inputs.get(1).is_some_and(|b| b[0] * b[1] > 0.0))
    }),
    ("GlobalAveragePool", first),
    ("HardSigmoid", |_, _| Some([0.0, 1.0])),
    ("HardSwish", |inputs, _| Some([-0.375, inputs.first()?[1].max(0.0)])),
    ("Max", |inputs, _| Some([largest(inputs, 0), largest(inputs, 1)])),
    ("Mean", |inputs, _| Some([smallest(inputs, 0), largest(inputs, 1)])),
    ("Min", |inputs, _| Some([smallest(inputs, 0), smallest(inputs, 1)])),
    ("Mul", |inputs, _| binary(inputs, |a, b| a * b)),
    ("Neg", |inputs, _| inputs.first().map(|&[low, high]| [-high, -low])),
    ("ReduceMax", first),
    ("ReduceMean", first),
    ("ReduceMin", first),
    ("Relu", |inputs, _| inputs.first().map(|range| range.map(|bound| bound.max(0.0)))),
    ("Sigmoid", |_, _| Some([0.0, 1.0])),
    ("Softmax", |_, _| Some([0.0, 1.0])),
    ("Sqrt", |inputs, _| inputs.first().map(|range| range.map(|bound| bound.max(0.0).sqrt()))),
    ("Sub", |inputs, _| binary(inputs, |a, b| a - b)),
    ("Sum", |inputs, _| Some(sum(inputs))),
    ("Tanh", |_, _| Some([-1.0, 1.0])),
];

fn first(inputs: &[Range], _: &BoundNode) -> Option<Range> {
    inputs.first().copied()
}

fn clipped(inputs: &[Range], _: &BoundNode) -> Option<Range> {
    let [low, high] = *inputs.first()?;
    let [min, max] = [inputs.get(1), inputs.get(2)].map(|bound| bound.map(|bound| bound[0]));
    let clip =
        |bound: f64| bound.max(min.unwrap_or(f64::NEG_INFINITY)).min(max.unwrap_or(f64::INFINITY));
    Some([clip(low), clip(high)])
}

fn sum(ranges: &[Range]) -> Range {
    ranges.iter().fold([0.0; 2], |[low, high], range| [low + range[0], high + range[1]])
}

/// Returns the range of a function that is monotonic in each operand, from its values at the bounds.
fn binary(ranges: &[Range], f: fn(f64, f64) -> f64) -> Option<Range> {
    let &[a, b] = ranges else { return None };
    Some(hull(&[f(a[0], b[0]), f(a[0], b[1]), f(a[1], b[0]), f(a[1], b[1])]))
}

fn magnitude([low, high]: Range) -> f64 {
    low.abs().max(high.abs())
}

/// Returns the smallest lower (0) or upper (1) bound.
fn smallest(ranges: &[Range], side: usize) -> f64 {
    ranges.iter().map(|range| range[side]).fold(f64::INFINITY, f64::min)
}

/// Returns the largest lower (0) or upper (1) bound.
fn largest(ranges: &[Range], side: usize) -> f64 {
    ranges.iter().map(|range| range[side]).fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the smallest range that contains all numbers.
fn hull(numbers: &[f64]) -> Range {
    let bounds = |[low, high]: Range, x: &f64| [low.min(*x), high.max(*x)];
    numbers.iter().fold([f64::INFINITY, f64::NEG_INFINITY], bounds)
}

/// Returns the encoding of a node's first output, given the encodings of its inputs.
pub(super) fn derived(
    graph: &TypedGraph,
    bound: &BoundNode,
    known: impl Fn(ValueId) -> Option<Quantized>,
) -> Option<Quantized> {
    let (_, rule) = RULES.iter().find(|(op, _)| *op == bound.node.op)?;
    let is_onnx = bound.node.domain.is_empty();
    let mut ranges = Vec::new();
    let mut has_variable_input = false;
    for input in bound.node.inputs.iter().filter(|_| is_onnx).flatten() {
        if let Some(tensor) = graph.known(Some(*input)) {
            let numbers: Vec<f64> = tensor.get::<f32>()?.iter().map(|&x| x.into()).collect();
            ranges.push(hull(&numbers));
        } else {
            has_variable_input = true;
            ranges.push(range_of(known(*input)?)?);
        }
    }
    let range = rule(&ranges, bound).filter(|_| has_variable_input)?;
    encoding_for(range)
}

/// Returns the range of the real values that an encoding represents.
fn range_of(quantized: Quantized) -> Option<Range> {
    let Encodings::PerTensor(Encoding { scale, zero_point }) = quantized.encodings else {
        return None;
    };
    let (min, max) = match quantized.dtype {
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::U16 => (0, 65_535),
        DType::I16 => (-32_768, 32_767),
        _ => return None,
    };
    Some([min, max].map(|stored| f64::from(stored - zero_point) * f64::from(scale)))
}

/// Returns a 16-bit encoding of a range that represents 0 exactly.
fn encoding_for([low, high]: Range) -> Option<Quantized> {
    const STEPS: f64 = 65_535.0;
    // Avoids a scale of 0 for constants.
    const MIN_WIDTH: f64 = 1e-9;
    let low = low.min(0.0);
    let high = high.max(low + MIN_WIDTH).max(0.0);
    let scale = (high - low) / STEPS;
    let zero_point = (-low / scale).round_ties_even();
    #[expect(clippy::cast_possible_truncation, reason = "it is from 0 to 65,535")]
    let encoding = Encoding { scale: scale as f32, zero_point: zero_point as i32 };
    let is_valid = encoding.scale.is_normal() && (0.0..=STEPS).contains(&zero_point);
    is_valid.then_some(Quantized { dtype: DType::U16, encodings: Encodings::PerTensor(encoding) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    type Function = fn(f64, f64) -> f64;

    #[test]
    fn ranges_contain_all_results_and_are_tight() {
        let rule = |name: &str| RULES.iter().find(|(op, _)| *op == name).unwrap().1;
        let graph = udo_graph::graph::Graph::parse(
            "graph g\n  input x: f32[1]\n  y = Relu@14(x)\n  output y\n",
        );
        let bound = testing::resolved(&testing::resources(), graph.unwrap()).nodes.remove(0);
        let functions: [(&str, Function); 6] = [
            ("Add", |a, b| a + b),
            ("Sub", |a, b| a - b),
            ("Mul", |a, b| a * b),
            ("Div", |a, b| a / b),
            ("Max", f64::max),
            ("Min", f64::min),
        ];
        let (a, b) = ([-3.0, 2.0], [0.5, 4.0]);
        let at = |[low, high]: Range, k: u32| low + (high - low) * f64::from(k) / 8.0;
        for (name, f) in functions {
            let [low, high] = rule(name)(&[a, b], &bound).unwrap();
            let points = (0..=8).flat_map(|i| (0..=8).map(move |j| (i, j)));
            let results: Vec<f64> = points.map(|(i, j)| f(at(a, i), at(b, j))).collect();
            assert!(
                results.iter().all(|y| (low..=high).contains(y)),
                "{name}: {low} {high} {results:?}"
            );
            let differences =
                hull(&results).into_iter().zip([low, high]).map(|(a, b)| (a - b).abs());
            assert!(differences.fold(0.0, f64::max) < 1e-12, "{name} has the smallest range");
        }
        assert_eq!(rule("Div")(&[a, [-1.0, 1.0]], &bound), None);
        assert_eq!(rule("Clip")(&[a, [0.0; 2], [6.0; 2]], &bound), Some([0.0, 2.0]));
    }

    #[test]
    fn encodings_represent_the_range_and_zero() {
        for range in [[-3.0, 2.0], [0.0, 6.0], [1.0, 5.0], [-7.0, -2.0], [0.0, 0.0]] {
            let [low, high] = range_of(encoding_for(range).unwrap()).unwrap();
            let step = (high - low) / 65_535.0;
            assert!(low <= range[0] + step && high >= range[1] - step, "{range:?}: {low} {high}");
            assert!(low <= 0.0 && high >= 0.0 && high - low > 0.9e-9);
        }
        assert!(encoding_for([f64::NEG_INFINITY, 1.0]).is_none());
    }
}
