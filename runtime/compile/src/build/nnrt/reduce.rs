//! Maps the reductions and normalizations of `NNRt`.

use udo_api::DType;

use super::{Lower, Result, invalid};
use udo_graph::graph::{Attr, ValueId};

pub(super) fn mean(lower: &mut Lower<'_>) -> Result<()> {
    reduced(lower, "ReduceMean")
}

pub(super) fn prod(lower: &mut Lower<'_>) -> Result<()> {
    reduced(lower, "ReduceProd")
}

pub(super) fn max(lower: &mut Lower<'_>) -> Result<()> {
    reduced(lower, "ReduceMax")
}

pub(super) fn min(lower: &mut Lower<'_>) -> Result<()> {
    reduced(lower, "ReduceMin")
}

pub(super) fn sum(lower: &mut Lower<'_>) -> Result<()> {
    reduced(lower, "ReduceSum")
}

pub(super) fn l2(lower: &mut Lower<'_>) -> Result<()> {
    reduced(lower, "ReduceL2")
}

/// Lowers the test whether all elements are true, as the minimum of bools.
pub(super) fn all(lower: &mut Lower<'_>) -> Result<()> {
    if lower.input(0)?.dtype() != DType::Bool {
        return Err(invalid(format!("input 0 is {}, expected bool", lower.input(0)?)));
    }
    if lower.has("coeff") {
        return Err(invalid("attribute \"coeff\" is given, and bools are not multiplied"));
    }
    let y = along(lower, "ReduceMin")?;
    lower.give(0, y)
}

/// Lowers a reduction followed by a factor, attribute `coeff`.
fn reduced(lower: &mut Lower<'_>, op: &str) -> Result<()> {
    let y = along(lower, op)?;
    let coeff = lower.float("coeff")?;
    let y = if coeff.to_bits() == 1f64.to_bits() {
        y
    } else {
        let coeff = lower.number(0, coeff)?;
        lower.node("Mul", &[y, coeff], &[])
    };
    lower.give(0, y)
}

/// Returns the reduction along the axes of input 1, or, with `reduce_to_end`, along the axis of input 1 and all later
/// ones.
fn along(lower: &mut Lower<'_>, op: &str) -> Result<ValueId> {
    let rank = lower.rank(0)?;
    let axes = if lower.has("reduce_to_end") && lower.flag("reduce_to_end")? {
        let first = Lower::axis_of(lower.known_int(1)?, rank)?;
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        let axes: Vec<i64> = (0i64..).take(rank).filter(|axis| *axis >= first).collect();
        lower.int_list(&axes)?
    } else {
        lower.ints(1)?
    };
    let x = lower.x(0)?;
    let keep = Attr::Int(lower.int("keep_dims")?);
    Ok(lower.node(op, &[x, axes], &[("keepdims", keep)]))
}

pub(super) fn softmax(lower: &mut Lower<'_>) -> Result<()> {
    let [axis] = lower.exactly::<1>("axis")?;
    along_axis(lower, "Softmax", axis)
}

pub(super) fn log_softmax(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    along_axis(lower, "LogSoftmax", axis)
}

/// Lowers an operator along one axis.
fn along_axis(lower: &mut Lower<'_>, op: &str, axis: i64) -> Result<()> {
    let x = lower.x(0)?;
    let y = lower.node(op, &[x], &[("axis", Attr::Int(axis))]);
    lower.give(0, y)
}

/// y = x / max(norm(x), sqrt(epsilon))
pub(super) fn l2_normalize(lower: &mut Lower<'_>) -> Result<()> {
    let axes = lower.list("axis").unwrap_or_default();
    let epsilon = lower.float("epsilon")?;
    let (x, axes) = (lower.x(0)?, lower.int_list(&axes)?);
    let squares = lower.node("ReduceSumSquare", &[x, axes], &[("keepdims", Attr::Int(1))]);
    let epsilon = lower.number(0, epsilon)?;
    let squares = lower.node("Max", &[squares, epsilon], &[]);
    let length = lower.node("Sqrt", &[squares], &[]);
    let y = lower.node("Div", &[x, length], &[]);
    lower.give_active(y)
}

pub(super) fn layer_norm(lower: &mut Lower<'_>) -> Result<()> {
    let rank = lower.rank(0)?;
    let begin = lower.int("begin_axis")?;
    let [axis, params] =
        [begin, lower.int("begin_params_axis")?].map(|axis| Lower::axis_of(axis, rank));
    let (axis, params) = (axis?, params?);
    let attrs = [("axis", Attr::Int(begin)), ("epsilon", Attr::Float(lower.float("epsilon")?))];
    let (x, gamma, beta) = (lower.x(0)?, lower.x(1)?, lower.x(2)?);
    let y = if axis == params {
        lower.node("LayerNormalization", &[x, gamma, beta], &attrs)
    } else {
        // The scale has other axes than the mean: normalize with a scale of ones, and apply the real scale afterwards.
        let extents = lower.node("Shape", &[x], &[("start", Attr::Int(begin))]);
        let one = lower.number(0, 1.0)?;
        let ones = lower.node("Expand", &[one, extents], &[]);
        let normal = lower.node("LayerNormalization", &[x, ones], &attrs);
        let scaled = lower.node("Mul", &[normal, gamma], &[]);
        lower.node("Add", &[scaled, beta], &[])
    };
    lower.give(0, y)
}
