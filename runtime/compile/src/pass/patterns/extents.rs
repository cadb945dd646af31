//! The rules of operators for symbolic extents (`pass::extent`), and for integers that are computed from them, such as
//! shapes.

use udo_api::{Dim, Facts, TensorDesc, resolve_axis};
use udo_host::ParamSetting;

use crate::pass::extent::Extent;
use crate::pass::extents::{Inferred, NodeExtents};

/// Returns the extents and integers of a node's output.
pub(in crate::pass) fn rule(node: &NodeExtents<'_>) -> Option<Inferred> {
    let (domain, op) = node.op();
    let inferred = match (domain, op) {
        ("", "Shape") => shape(node)?,
        ("", "Size") => {
            Inferred { dims: Vec::new(), ints: Some(vec![Extent::product(node.dims(0)?)?]) }
        }
        ("", "Gather") => gather(node)?,
        ("", "GatherND") => gather_nd(node)?,
        ("", "Slice") => slice(node)?,
        ("", "Concat") => concat(node)?,
        ("", "Transpose") => transpose(node)?,
        ("", "MatMul" | "MatMulInteger") => product(node)?,
        ("", "Gemm") => gemm(node),
        ("", "Reshape") | ("udo", "BoundedReshape") => reshape(node)?,
        ("", "Expand") | ("udo", "BoundedExpand") => expand(node)?,
        ("", "Range") | ("udo", "BoundedRange") => range(node)?,
        ("", "ConstantOfShape") | ("udo", "BoundedConstantOfShape") => {
            Inferred { dims: known(node.ints(0)?), ints: None }
        }
        ("", "Squeeze") => squeeze(node)?,
        ("", "Unsqueeze") => unsqueeze(node)?,
        ("", op) if op.starts_with("Reduce") => reduce(node)?,
        ("" | "udo", "Attention") => attention(node)?,
        ("com.microsoft", "GroupQueryAttention") => rows(node)?,
        ("", op) if SHAPE_KEEPING.contains(&op) => {
            Inferred { dims: known(node.dims(0)?), ints: None }
        }
        ("", op) if is_elementwise(node, op) => elementwise(node, op)?,
        _ => return None,
    };
    Some(inferred)
}

/// Operators whose first output has the shape of the first input.
const SHAPE_KEEPING: &[&str] = &[
    "CumProd",
    "CumSum",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "Hardmax",
    "LayerNormalization",
    "LogSoftmax",
    "QuantizeLinear",
    "RMSNormalization",
    "RotaryEmbedding",
    "ScatterElements",
    "ScatterND",
    "Softmax",
    "Trilu",
];

/// Broadcasting operators without the elementwise fact.
const BROADCASTS: &[&str] =
    &["Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"];

fn is_elementwise(node: &NodeExtents<'_>, op: &str) -> bool {
    node.bound.op.schema().known_facts().has(Facts::ELEMENTWISE) || BROADCASTS.contains(&op)
}

/// Returns extents that are all known.
fn known(dims: &[Extent]) -> Vec<Option<Extent>> {
    dims.iter().cloned().map(Some).collect()
}

fn setting<'a>(node: &'a NodeExtents<'_>, name: &str) -> Option<&'a ParamSetting> {
    node.bound
        .params
        .settings()
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, setting)| setting)
}

fn int(node: &NodeExtents<'_>, name: &str) -> Option<i64> {
    match setting(node, name)? {
        ParamSetting::Int(value) => Some(*value),
        _ => None,
    }
}

fn shape(node: &NodeExtents<'_>) -> Option<Inferred> {
    let dims = node.dims(0)?;
    // Indices beyond the ends are clamped.
    let position = |index: i64| {
        let rank = i64::try_from(dims.len()).ok()?;
        usize::try_from(if index < 0 { index.saturating_add(rank) } else { index }.clamp(0, rank))
            .ok()
    };
    let start = int(node, "start").map_or(Some(0), position)?;
    let end = int(node, "end").map_or(Some(dims.len()), position)?;
    Some(Inferred { dims: Vec::new(), ints: Some(dims.get(start..end).unwrap_or(&[]).to_vec()) })
}

fn gather(node: &NodeExtents<'_>) -> Option<Inferred> {
    let (data, indices) = (node.dims(0)?, node.dims(1)?);
    let axis = resolve_axis(int(node, "axis")?, data.len())?;
    let dims = [data.get(..axis)?, indices, data.get(axis + 1..)?].concat();
    let gathered_ints = || {
        let ints = node.ints(0).filter(|_| data.len() == 1)?;
        let pick = |index: i64| ints.get(resolve_axis(index, ints.len())?).cloned();
        node.numbers(1)?.into_iter().map(pick).collect()
    };
    Some(Inferred { dims: known(&dims), ints: gathered_ints() })
}

fn gather_nd(node: &NodeExtents<'_>) -> Option<Inferred> {
    let (data, (last, outer)) = (node.dims(0)?, node.dims(1)?.split_last()?);
    let batch = usize::try_from(int(node, "batch_dims")?).ok()?;
    let tuple_len = usize::try_from(last.number()?).ok()?;
    let dims = [outer, data.get(batch.checked_add(tuple_len)?..)?].concat();
    Some(Inferred { dims: known(&dims), ints: None })
}

fn slice(node: &NodeExtents<'_>) -> Option<Inferred> {
    let input_dims = node.dims(0)?;
    let (starts, ends) = (node.ints(1)?, node.ints(2)?);
    let axes = match node.bound.node.input(3) {
        Some(_) => node.numbers(3)?,
        None => (0..).take(starts.len()).collect(),
    };
    let steps = match node.bound.node.input(4) {
        Some(_) => node.numbers(4)?,
        None => vec![1; starts.len()],
    };
    let (mut dims, mut ints) = (known(input_dims), node.ints(0).map(<[Extent]>::to_vec));
    for (((start, end), axis), step) in starts.iter().zip(ends).zip(axes).zip(steps) {
        let axis = resolve_axis(axis, input_dims.len())?;
        let bounds = (step == 1).then(|| span(node, &input_dims[axis], [start, end])).flatten();
        let numbers = bounds.as_ref().and_then(|[start, len]| {
            let number = |extent: &Extent| usize::try_from(extent.number()?).ok();
            Some((number(start)?, number(len)?))
        });
        ints = ints.zip(numbers).and_then(|(ints, (start, len))| {
            Some(ints.get(start..)?.get(..len)?.to_vec()).filter(|_| input_dims.len() == 1)
        });
        *dims.get_mut(axis)? = bounds.map(|[_, len]| len);
    }
    Some(Inferred { dims, ints })
}

/// Returns the start and length of a slice along an axis.
fn span(
    node: &NodeExtents<'_>,
    extent: &Extent,
    [start, end]: [&Extent; 2],
) -> Option<[Extent; 2]> {
    let from_begin = |index: &Extent| {
        if index.number().is_none_or(|number| number >= 0) {
            return Some(index.clone());
        }
        // Indices before the first element are clamped.
        let index = extent.plus(index)?;
        let is_before = index.number().is_some_and(|number| number < 0);
        let index = if is_before { Extent::constant(0) } else { index };
        Some(index).filter(|index| is_not_negative(node, index))
    };
    let end = from_begin(end)?;
    let end = match (node.is_at_most(extent, &end), node.is_at_most(&end, extent)) {
        (true, _) => extent.clone(),
        (_, true) if is_not_negative(node, &end) => end,
        _ => return None,
    };
    let start = from_begin(start)?;
    let len = end
        .minus(&start)
        .filter(|len| is_not_negative(node, len) && is_not_negative(node, &start))?;
    Some([start, len])
}

/// Returns whether a number is at least 0 in every run.
fn is_not_negative(node: &NodeExtents<'_>, number: &Extent) -> bool {
    node.is_at_most(&Extent::constant(0), number)
}

fn concat(node: &NodeExtents<'_>) -> Option<Inferred> {
    let inputs = 0..node.bound.node.inputs.len();
    let mut dims = known(node.dims(0)?);
    let axis = resolve_axis(int(node, "axis")?, dims.len())?;
    let parts: Option<Vec<Extent>> =
        inputs.clone().map(|port| node.dims(port)?.get(axis).cloned()).collect();
    dims[axis] = parts?.iter().try_fold(Extent::constant(0), |sum, part| sum.plus(part));
    let ints: Option<Vec<_>> = inputs.map(|port| Some(node.ints(port)?.to_vec())).collect();
    Some(Inferred { ints: ints.map(|ints| ints.concat()).filter(|_| dims.len() == 1), dims })
}

fn transpose(node: &NodeExtents<'_>) -> Option<Inferred> {
    let dims = node.dims(0)?;
    let dims: Option<Vec<Extent>> = match setting(node, "perm") {
        Some(ParamSetting::Ints(perm)) => {
            perm.iter().map(|&axis| dims.get(resolve_axis(axis, dims.len())?).cloned()).collect()
        }
        _ => Some(dims.iter().rev().cloned().collect()),
    };
    Some(Inferred { dims: known(&dims?), ints: None })
}

fn product(node: &NodeExtents<'_>) -> Option<Inferred> {
    let ([.., rows, _], [.., cols]) = (node.dims(0)?, node.dims(1)?) else { return None };
    let outer = |port: usize| {
        let mut dims = operand(node, port)?;
        dims.truncate(dims.len().checked_sub(2)?);
        Some(dims)
    };
    let mut dims = broadcast(&[outer(0)?, outer(1)?]);
    dims.extend([Some(rows.clone()), Some(cols.clone())]);
    Some(Inferred { dims, ints: None })
}

fn gemm(node: &NodeExtents<'_>) -> Inferred {
    let side = |port: usize, transposed: &str, axis: usize| {
        node.dims(port)?
            .get(if int(node, transposed) == Some(1) { 1 - axis } else { axis })
            .cloned()
    };
    Inferred { dims: vec![side(0, "transA", 0), side(1, "transB", 1)], ints: None }
}

/// Returns the extents of an input, with the dimensions that the plan uses.
fn operand(node: &NodeExtents<'_>, port: usize) -> Option<Vec<(Dim, Extent)>> {
    let shape = node.desc(port).full_shape();
    Some(shape.iter().zip(node.dims(port)?.iter().cloned()).collect())
}

/// Returns the broadcast extents: extents other than 1 must be equal to be known.
fn broadcast(operands: &[Vec<(Dim, Extent)>]) -> Vec<Option<Extent>> {
    let rank = operands.iter().map(Vec::len).max().unwrap_or(0);
    let axis = |from_last: usize| {
        let along_axis =
            operands.iter().filter_map(|dims| dims.get(dims.len().checked_sub(from_last)?));
        let mut long =
            along_axis.filter(|(dim, _)| dim.exact() != Some(1)).map(|(_, extent)| extent);
        let Some(first) = long.next() else { return Some(Extent::constant(1)) };
        long.all(|other| other == first).then(|| first.clone())
    };
    (1..=rank).rev().map(axis).collect()
}

fn reshape(node: &NodeExtents<'_>) -> Option<Inferred> {
    let (from, stated) = (node.dims(0)?, node.ints(1)?);
    let keeps_zero = int(node, "allowzero") == Some(1);
    let (mut dims, mut inferred_axis) = (Vec::new(), None);
    for (axis, extent) in stated.iter().enumerate() {
        dims.push(match extent.number() {
            Some(-1) => {
                inferred_axis = Some(axis);
                None
            }
            Some(0) if !keeps_zero => from.get(axis).cloned(),
            // If the extent is 0 in a run, it stands for the input's extent, which is equal, or the tensor is empty.
            None if !keeps_zero && from.get(axis) != Some(extent) => {
                Extent::product(from)?.over(extent).map(|_| extent.clone())
            }
            _ => Some(extent.clone()),
        });
    }
    if let Some(axis) = inferred_axis {
        let others: Option<Vec<&Extent>> = dims
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != axis)
            .map(|(_, dim)| dim.as_ref())
            .collect();
        dims[axis] =
            others.and_then(|others| Extent::product(from)?.over(&Extent::product(others)?));
    }
    Some(Inferred { dims, ints: node.ints(0).map(<[Extent]>::to_vec) })
}

fn expand(node: &NodeExtents<'_>) -> Option<Inferred> {
    let stated = node.ints(1)?.iter().map(|extent| {
        let number = extent.number().and_then(|number| usize::try_from(number).ok());
        (number.map_or(Dim::UpTo(usize::MAX), Dim::Fixed), extent.clone())
    });
    Some(Inferred { dims: broadcast(&[operand(node, 0)?, stated.collect()]), ints: None })
}

fn range(node: &NodeExtents<'_>) -> Option<Inferred> {
    let [[start], [limit], [step]] = [node.ints(0)?, node.ints(1)?, node.ints(2)?] else {
        return None;
    };
    let len =
        limit.minus(start).filter(|len| step.number() == Some(1) && is_not_negative(node, len));
    Some(Inferred { dims: vec![len], ints: None })
}

/// Returns the axes of a view, which are an input.
fn axes(node: &NodeExtents<'_>, rank: usize) -> Option<Vec<usize>> {
    node.numbers(1)?.into_iter().map(|axis| resolve_axis(axis, rank)).collect()
}

fn squeeze(node: &NodeExtents<'_>) -> Option<Inferred> {
    let (x, dims) = (node.desc(0), node.dims(0)?);
    let removed = match node.bound.node.input(1) {
        Some(_) => axes(node, x.rank())?,
        None if x.full_shape().is_fixed() => {
            (0..x.rank()).filter(|&axis| x.shape()[axis] == 1).collect()
        }
        None => return None,
    };
    let remaining = dims.iter().enumerate().filter(|(axis, _)| !removed.contains(axis));
    let dims = remaining.map(|(_, extent)| Some(extent.clone())).collect();
    Some(Inferred { dims, ints: node.ints(0).map(<[Extent]>::to_vec) })
}

fn unsqueeze(node: &NodeExtents<'_>) -> Option<Inferred> {
    let dims = node.dims(0)?;
    let rank = dims.len().checked_add(node.numbers(1)?.len())?;
    let (new_axes, mut input_dims) = (axes(node, rank)?, dims.iter());
    let dim = |axis| {
        if new_axes.contains(&axis) {
            Some(Extent::constant(1))
        } else {
            input_dims.next().cloned()
        }
    };
    let dims = (0..rank).map(dim).collect();
    Some(Inferred { dims, ints: node.ints(0).map(<[Extent]>::to_vec) })
}

fn reduce(node: &NodeExtents<'_>) -> Option<Inferred> {
    let x = node.dims(0)?;
    let removed = axes(node, x.len())?;
    let keeps = int(node, "keepdims") == Some(1);
    let dims = x.iter().enumerate().filter_map(|(axis, extent)| match removed.contains(&axis) {
        true if keeps => Some(Some(Extent::constant(1))),
        true => None,
        false => Some(Some(extent.clone())),
    });
    // Without axes, the reduction may be over all of them.
    Some(Inferred { dims: dims.collect(), ints: None }).filter(|_| !removed.is_empty())
}

/// Attention of separate heads or of rows; for rows, the output's shape determines the width of the values.
fn attention(node: &NodeExtents<'_>) -> Option<Inferred> {
    let (q, v) = (node.dims(0)?, node.dims(2)?);
    let (width, outer) = (v.last()?, q.get(..q.len().checked_sub(1)?)?);
    let width = (q.len() == 4).then(|| width.clone());
    Some(Inferred { dims: known(outer).into_iter().chain([width]).collect(), ints: None })
}

/// Attention of rows: each row of queries yields one row.
fn rows(node: &NodeExtents<'_>) -> Option<Inferred> {
    let [batch, length, _] = node.dims(0)? else { return None };
    Some(Inferred { dims: vec![Some(batch.clone()), Some(length.clone()), None], ints: None })
}

fn elementwise(node: &NodeExtents<'_>, op: &str) -> Option<Inferred> {
    let ports = 0..node.bound.node.inputs.len();
    let present = ports.filter(|&port| node.bound.node.input(port).is_some());
    let operands: Option<Vec<_>> = present.map(|port| operand(node, port)).collect();
    Some(Inferred { dims: broadcast(&operands?), ints: computed(node, op) })
}

/// Returns the integers that an elementwise node computes from other integers.
fn computed(node: &NodeExtents<'_>, op: &str) -> Option<Vec<Extent>> {
    let a = node.ints(0)?;
    let is_int = |desc: TensorDesc| desc.dtype().is_some_and(|dtype| !dtype.is_float());
    if matches!(op, "Cast" | "Identity") {
        return is_int(node.graph.desc(node.bound.node.output(0))).then(|| a.to_vec());
    }
    let b = node.ints(1)?;
    let compute: fn(&Extent, &Extent) -> Option<Extent> = match op {
        "Add" => Extent::plus,
        "Sub" => Extent::minus,
        "Mul" => Extent::times,
        _ => return None,
    };
    let len = a.len().max(b.len());
    let get = |x: &[Extent], i: usize| x.get(if x.len() == 1 { 0 } else { i }).cloned();
    (0..len).map(|i| compute(&get(a, i)?, &get(b, i)?)).collect()
}
