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
        "Mul" => Candidate::either(|x, one| without_neutral(node, x, one, 1.0)),
        "Div" | "Pow" => without_neutral(node, 0, 1, 1.0),
        "Sub" => without_neutral(node, 0, 1, 0.0),
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
fn no_element_is(node: &Candidate<'_>, port: usize, condition: fn(i64) -> bool) -> bool {
    match (node.constant::<i64>(port), node.constant::<i32>(port)) {
        (Some(ints), _) => !ints.iter().any(|&int| condition(int)),
        (_, Some(ints)) => !ints.iter().any(|&int| condition(i64::from(int))),
        (None, None) => false,
    }
}

/// Returns operand `x` if the other operand is this neutral constant.
fn without_neutral(node: &Candidate<'_>, x: usize, other: usize, number: f32) -> Option<ValueId> {
    let is_neutral = node.scalar(other).is_some_and(|scalar| scalar.to_bits() == number.to_bits());
    node.input_id(x).filter(|_| is_neutral && node.input(x) == node.output())
}

/// Returns the input of a view that does not change the shape, or of the first of two views that together restore it.
fn view(node: &Candidate<'_>) -> Option<ValueId> {
    let shape = node.output();
    if node.input(0) == shape && (node.makes_one_fixed() || node.facts().has(Facts::ELEMENTWISE)) {
        return node.input_id(0);
    }
    let inner = node.producer(0).filter(|_| node.makes_one_fixed())?;
    let is_inverse = inner.op().is_some() && inner.facts().has(Facts::VIEW);
    inner.input_id(0).filter(|_| is_inverse && inner.input(0) == shape)
}

/// Returns the input of a cast to its own type, or the value that a cast to a wider type read before it was cast back.
fn cast(node: &Candidate<'_>) -> Option<ValueId> {
    let dtype = node.output().dtype()?;
    if node.input(0).dtype() == Some(dtype) {
        return node.input_id(0);
    }
    let inner = node.producer(0).filter(|inner| matches!(inner.op(), Some("Cast" | "CastLike")))?;
    let is_inverse = inner.input(0).dtype() == Some(dtype);
    inner.input_id(0).filter(|_| is_inverse && represents_all(node.input(0).dtype(), dtype))
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
    let has_all_parts =
        split.node().node.outputs == node.node().node.inputs && axis(&split) == axis(node);
    split.input_id(0).filter(|_| has_all_parts && split.input(0) == node.output())
}

/// Returns q for `QuantizeLinear(DequantizeLinear(q))` with equal parameters, which is exact.
fn quantized(node: &Candidate<'_>) -> Option<ValueId> {
    const PARAMS: [&str; 2] = ["axis", "block_size"];
    let inner = node.made_by(0, "DequantizeLinear")?;
    let scales = node.constant::<f32>(1)?;
    // Other scales may overflow or underflow.
    let are_exact = scales.iter().all(|scale| (1e-30..1e30).contains(scale));
    let is_same = |port: usize| match (node.tensor(port), inner.tensor(port)) {
        (Some(outer), Some(inner)) => {
            outer.desc() == inner.desc() && outer.stored() == inner.stored()
        }
        (None, None) => node.input_id(port).is_none() && inner.input_id(port).is_none(),
        _ => false,
    };
    let fits = are_exact
        && is_same(1)
        && is_same(2)
        && PARAMS.iter().all(|name| node.int(name) == inner.int(name))
        && inner.input(0) == node.output();
    inner.input_id(0).filter(|_| fits)
}

/// Returns the input of a transpose that changes nothing, or of two transposes that cancel out.
fn transposed(node: &Candidate<'_>) -> Option<ValueId> {
    if preserves_order(&node.input(0).full_shape().iter().collect::<Vec<_>>(), &order(node)?) {
        return node.input_id(0).filter(|_| node.input(0) == node.output());
    }
    let inner = node.made_by(0, "Transpose")?;
    let inner_order = order(&inner)?;
    let composed: Option<Vec<usize>> =
        order(node)?.iter().map(|&axis| inner_order.get(axis).copied()).collect();
    let is_inverse =
        preserves_order(&inner.input(0).full_shape().iter().collect::<Vec<_>>(), &composed?);
    inner.input_id(0).filter(|_| is_inverse && inner.input(0) == node.output())
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
