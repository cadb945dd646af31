//! Finds nodes whose output equals an earlier value: copies, conversions back and forth, and parts that are joined
//! again.
//!
//! * `x * 1`, `x / 1`, `x ^ 1`, `x - 0` -> `x`
//! * `Cast(Cast(x, wider), type of x)` -> `x`
//! * `Concat(Split(x))` -> `x`
//! * `QuantizeLinear(DequantizeLinear(q, s, z), s, z)` -> `q`
//! * `Transpose(Transpose(x, p), inverse of p)` -> `x`

use udo_api::{DType, Dim, Facts, resolve_axis};

use crate::pass::Candidate;
use udo_graph::graph::ValueId;
use udo_graph::memory::TensorStorage;

/// Returns the value that equals the node's output element for element.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<ValueId> {
    let op = node.op()?;
    if !node.makes_one() || node.output().is_absent() {
        return None;
    }
    if node.facts().has(Facts::VIEW) {
        return view(node);
    }
    match op {
        "Cast" | "CastLike" => cast(node),
        "Concat" => rejoined(node),
        "QuantizeLinear" => quantized(node),
        "Transpose" => transposed(node),
        _ if is_unchanged(node, op) => node.input_id(0),
        "Mul" => Candidate::either(|x, one| with_neutral(node, x, one, 1.0)),
        "Div" | "Pow" => with_neutral(node, 0, 1, 1.0),
        "Sub" => with_neutral(node, 0, 1, 0.0),
        _ => None,
    }
}

/// Returns whether a node's output is its first input.
fn is_unchanged(node: &Candidate<'_>, op: &str) -> bool {
    let is_same = || node.makes_one_fixed() && node.input(0) == node.output();
    match op {
        "Expand" | "Tile" => is_same(),
        "Max" | "Mean" | "Min" | "Sum" => node.node().node.inputs.len() == 1,
        // If the extents are equal and steps are positive, every step is 1.
        "Slice" => {
            is_same() && (node.input_id(4).is_none() || no_element_is(node, 4, |step| step < 0))
        }
        "Pad" => node.text("mode") == Some("constant") && no_element_is(node, 1, |pad| pad != 0),
        _ => false,
    }
}

/// Returns whether an input is constant and no element satisfies the condition.
fn no_element_is(node: &Candidate<'_>, port: usize, is_so: fn(i64) -> bool) -> bool {
    match (node.constant::<i64>(port), node.constant::<i32>(port)) {
        (Some(ints), _) => !ints.iter().any(|&int| is_so(int)),
        (_, Some(ints)) => !ints.iter().any(|&int| is_so(i64::from(int))),
        (None, None) => false,
    }
}

/// Returns operand `x` if the other operand is this neutral constant.
fn with_neutral(node: &Candidate<'_>, x: usize, other: usize, number: f32) -> Option<ValueId> {
    let is_it = node.scalar(other).is_some_and(|found| found.to_bits() == number.to_bits());
    node.input_id(x).filter(|_| is_it && node.input(x) == node.output())
}

/// Returns the value that a view, or two views in a row, show in its original shape.
fn view(node: &Candidate<'_>) -> Option<ValueId> {
    let shape = node.output();
    if node.input(0) == shape && (node.makes_one_fixed() || node.facts().has(Facts::ELEMENTWISE)) {
        return node.input_id(0);
    }
    let before = node.maker(0).filter(|_| node.makes_one_fixed())?;
    let is_back = before.op().is_some() && before.facts().has(Facts::VIEW);
    before.input_id(0).filter(|_| is_back && before.input(0) == shape)
}

/// Returns the input of a cast to its own type, or the value that a cast to a wider type read before it was cast back.
fn cast(node: &Candidate<'_>) -> Option<ValueId> {
    let wanted = node.output().dtype()?;
    if node.input(0).dtype() == Some(wanted) {
        return node.input_id(0);
    }
    let before = node.maker(0).filter(|before| matches!(before.op(), Some("Cast" | "CastLike")))?;
    let is_back = before.input(0).dtype() == Some(wanted);
    before.input_id(0).filter(|_| is_back && represents_all(node.input(0).dtype(), wanted))
}

/// Returns whether a type represents all values of another one. Bool is excluded, because casts to bool are not
/// injective.
fn represents_all(wide: Option<DType>, narrow: DType) -> bool {
    use DType::{F16, F32, F64, I8, I16, I32, I64, U8, U16, U32};
    let narrower: &[DType] = match wide {
        Some(I16) => &[I8, U8],
        Some(U16) => &[U8],
        Some(I32) => &[I8, U8, I16, U16],
        Some(U32) => &[U8, U16],
        Some(I64) => &[I8, U8, I16, U16, I32, U32],
        Some(F32) => &[F16, I8, U8, I16, U16],
        Some(F64) => &[F16, F32, I8, U8, I16, U16, I32, U32],
        _ => &[],
    };
    narrower.contains(&narrow)
}

/// Returns the operand of a concat with one input, or the input of the split whose parts are joined again.
fn rejoined(node: &Candidate<'_>) -> Option<ValueId> {
    if node.node().node.inputs.len() == 1 {
        return node.input_id(0);
    }
    let split = node.made_by(0, "Split")?;
    let axis = |node: &Candidate<'_>| resolve_axis(node.int("axis")?, node.output().rank());
    let is_whole =
        split.node().node.outputs == node.node().node.inputs && axis(&split) == axis(node);
    split.input_id(0).filter(|_| is_whole && split.input(0) == node.output())
}

/// Returns q for `QuantizeLinear(DequantizeLinear(q))` with equal parameters, which is exact.
fn quantized(node: &Candidate<'_>) -> Option<ValueId> {
    const PARAMS: [&str; 2] = ["axis", "block_size"];
    let before = node.made_by(0, "DequantizeLinear")?;
    let scales = node.constant::<f32>(1)?;
    let are_exact = scales.iter().all(|scale| (1e-30..1e30).contains(scale));
    let is_same = |port: usize| match (node.tensor(port), before.tensor(port)) {
        (Some(own), Some(other)) => own.desc() == other.desc() && own.stored() == other.stored(),
        (None, None) => node.input_id(port).is_none() && before.input_id(port).is_none(),
        _ => false,
    };
    let fits = are_exact
        && is_same(1)
        && is_same(2)
        && PARAMS.iter().all(|name| node.int(name) == before.int(name))
        && before.input(0) == node.output();
    before.input_id(0).filter(|_| fits)
}

/// Returns the input of a transpose that changes nothing, or of two transposes that cancel out.
fn transposed(node: &Candidate<'_>) -> Option<ValueId> {
    if preserves_order(&node.input(0).full_shape().iter().collect::<Vec<_>>(), &order(node)?) {
        return node.input_id(0).filter(|_| node.input(0) == node.output());
    }
    let before = node.made_by(0, "Transpose")?;
    let first = order(&before)?;
    let both: Option<Vec<usize>> =
        order(node)?.iter().map(|&axis| first.get(axis).copied()).collect();
    let is_back = preserves_order(&before.input(0).full_shape().iter().collect::<Vec<_>>(), &both?);
    before.input_id(0).filter(|_| is_back && before.input(0) == node.output())
}

/// Returns whether a permutation keeps the order of the axes with more than one element.
fn preserves_order(dims: &[Dim], order: &[usize]) -> bool {
    order.iter().filter(|&&axis| dims.get(axis) != Some(&Dim::Fixed(1))).is_sorted()
}

/// Returns the input axis of each output axis of a transpose.
pub(super) fn order(transpose: &Candidate<'_>) -> Option<Vec<usize>> {
    let rank = transpose.input(0).rank();
    match transpose.ints("perm") {
        None => Some((0..rank).rev().collect()),
        Some(axes) => axes.iter().map(|&axis| resolve_axis(axis, rank)).collect(),
    }
}
