//! The rules of operators for symbolic extents, and for integers that are computed from them.

use udo_api::{Dim, Facts, TensorDesc, resolve_axis};
use udo_host::ParamSetting;

use crate::pass::extent::Extent;
use crate::pass::extents::{Inferred, NodeExtents};

/// Returns the extents and integers of a node's output.
pub(in crate::pass) fn rule(at: &NodeExtents<'_>) -> Option<Inferred> {
    let (domain, op) = at.op();
    let said = match (domain, op) {
        ("", "Shape") => shape(at)?,
        ("", "Size") => {
            Inferred { dims: Vec::new(), ints: Some(vec![Extent::product(at.dims(0)?)?]) }
        }
        ("", "Gather") => gather(at)?,
        ("", "GatherND") => gather_nd(at)?,
        ("", "Slice") => slice(at)?,
        ("", "Concat") => concat(at)?,
        ("", "Transpose") => transpose(at)?,
        ("", "MatMul" | "MatMulInteger") => product(at)?,
        ("", "Gemm") => gemm(at),
        ("", "Reshape") | ("udo", "BoundedReshape") => reshape(at)?,
        ("", "Expand") | ("udo", "BoundedExpand") => expand(at)?,
        ("", "Range") | ("udo", "BoundedRange") => range(at)?,
        ("", "ConstantOfShape") | ("udo", "BoundedConstantOfShape") => {
            Inferred { dims: free_after(at.ints(0)?), ints: None }
        }
        ("", "Squeeze") => squeeze(at)?,
        ("", "Unsqueeze") => unsqueeze(at)?,
        ("", op) if op.starts_with("Reduce") => reduce(at)?,
        ("" | "udo", "Attention") => attention(at)?,
        ("com.microsoft", "GroupQueryAttention") => rows(at)?,
        ("", op) if KEEPS.contains(&op) => Inferred { dims: free_after(at.dims(0)?), ints: None },
        ("", op) if is_elementwise(at, op) => elementwise(at, op)?,
        _ => return None,
    };
    Some(said)
}

/// Operators whose first output has the shape of the first input.
const KEEPS: &[&str] = &[
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

fn is_elementwise(at: &NodeExtents<'_>, op: &str) -> bool {
    at.bound.op.schema().known_facts().has(Facts::ELEMENTWISE) || BROADCASTS.contains(&op)
}

fn free_after(dims: &[Extent]) -> Vec<Option<Extent>> {
    dims.iter().cloned().map(Some).collect()
}

fn setting<'a>(at: &'a NodeExtents<'_>, name: &str) -> Option<&'a ParamSetting> {
    at.bound.params.settings().iter().find(|(known, _)| *known == name).map(|(_, setting)| setting)
}

fn int(at: &NodeExtents<'_>, name: &str) -> Option<i64> {
    match setting(at, name)? {
        ParamSetting::Int(value) => Some(*value),
        _ => None,
    }
}

fn shape(at: &NodeExtents<'_>) -> Option<Inferred> {
    let dims = at.dims(0)?;
    // Indices beyond the ends are clamped.
    let place = |at: i64| {
        let rank = i64::try_from(dims.len()).ok()?;
        usize::try_from(if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank)).ok()
    };
    let start = int(at, "start").map_or(Some(0), place)?;
    let end = int(at, "end").map_or(Some(dims.len()), place)?;
    Some(Inferred { dims: Vec::new(), ints: Some(dims.get(start..end).unwrap_or(&[]).to_vec()) })
}

fn gather(at: &NodeExtents<'_>) -> Option<Inferred> {
    let (data, indices) = (at.dims(0)?, at.dims(1)?);
    let axis = resolve_axis(int(at, "axis")?, data.len())?;
    let dims = [data.get(..axis)?, indices, data.get(axis + 1..)?].concat();
    let taken = || {
        let ints = at.ints(0).filter(|_| data.len() == 1)?;
        let pick = |index: i64| ints.get(resolve_axis(index, ints.len())?).cloned();
        at.numbers(1)?.into_iter().map(pick).collect()
    };
    Some(Inferred { dims: free_after(&dims), ints: taken() })
}

fn gather_nd(at: &NodeExtents<'_>) -> Option<Inferred> {
    let (data, (last, outer)) = (at.dims(0)?, at.dims(1)?.split_last()?);
    let batch = usize::try_from(int(at, "batch_dims")?).ok()?;
    let taken = usize::try_from(last.number()?).ok()?;
    let dims = [outer, data.get(batch.checked_add(taken)?..)?].concat();
    Some(Inferred { dims: free_after(&dims), ints: None })
}

fn slice(at: &NodeExtents<'_>) -> Option<Inferred> {
    let all = at.dims(0)?;
    let (starts, ends) = (at.ints(1)?, at.ints(2)?);
    let along = match at.bound.node.input(3) {
        Some(_) => at.numbers(3)?,
        None => (0..).take(starts.len()).collect(),
    };
    let steps = match at.bound.node.input(4) {
        Some(_) => at.numbers(4)?,
        None => vec![1; starts.len()],
    };
    let (mut dims, mut ints) = (free_after(all), at.ints(0).map(<[Extent]>::to_vec));
    for (((start, end), axis), step) in starts.iter().zip(ends).zip(along).zip(steps) {
        let axis = resolve_axis(axis, all.len())?;
        let bounds = (step == 1).then(|| span(at, &all[axis], [start, end])).flatten();
        let numbers = bounds.as_ref().and_then(|[start, len]| {
            let number = |extent: &Extent| usize::try_from(extent.number()?).ok();
            Some((number(start)?, number(len)?))
        });
        ints = ints.zip(numbers).and_then(|(ints, (start, len))| {
            Some(ints.get(start..)?.get(..len)?.to_vec()).filter(|_| all.len() == 1)
        });
        *dims.get_mut(axis)? = bounds.map(|[_, len]| len);
    }
    Some(Inferred { dims, ints })
}

/// Returns the start and length of a slice along an axis.
fn span(at: &NodeExtents<'_>, all: &Extent, [start, end]: [&Extent; 2]) -> Option<[Extent; 2]> {
    let from_end = |place: &Extent| {
        if place.number().is_none_or(|number| number >= 0) {
            return Some(place.clone());
        }
        // Indices before the first element are clamped.
        let place = all.plus(place)?;
        let is_before = place.number().is_some_and(|number| number < 0);
        let place = if is_before { Extent::constant(0) } else { place };
        Some(place).filter(|place| is_there(at, place))
    };
    let end = from_end(end)?;
    let end = match (at.is_at_most(all, &end), at.is_at_most(&end, all)) {
        (true, _) => all.clone(),
        (_, true) if is_there(at, &end) => end,
        _ => return None,
    };
    let start = from_end(start)?;
    let len = end.minus(&start).filter(|len| is_there(at, len) && is_there(at, &start))?;
    Some([start, len])
}

/// Returns whether a number is at least 0 in every run.
fn is_there(at: &NodeExtents<'_>, number: &Extent) -> bool {
    at.is_at_most(&Extent::constant(0), number)
}

fn concat(at: &NodeExtents<'_>) -> Option<Inferred> {
    let inputs = 0..at.bound.node.inputs.len();
    let mut dims = free_after(at.dims(0)?);
    let axis = resolve_axis(int(at, "axis")?, dims.len())?;
    let parts: Option<Vec<Extent>> =
        inputs.clone().map(|port| at.dims(port)?.get(axis).cloned()).collect();
    dims[axis] = parts?.iter().try_fold(Extent::constant(0), |sum, part| sum.plus(part));
    let ints: Option<Vec<_>> = inputs.map(|port| Some(at.ints(port)?.to_vec())).collect();
    Some(Inferred { ints: ints.map(|ints| ints.concat()).filter(|_| dims.len() == 1), dims })
}

fn transpose(at: &NodeExtents<'_>) -> Option<Inferred> {
    let dims = at.dims(0)?;
    let dims: Option<Vec<Extent>> = match setting(at, "perm") {
        Some(ParamSetting::Ints(perm)) => {
            perm.iter().map(|&axis| dims.get(resolve_axis(axis, dims.len())?).cloned()).collect()
        }
        _ => Some(dims.iter().rev().cloned().collect()),
    };
    Some(Inferred { dims: free_after(&dims?), ints: None })
}

fn product(at: &NodeExtents<'_>) -> Option<Inferred> {
    let ([.., rows, _], [.., cols]) = (at.dims(0)?, at.dims(1)?) else { return None };
    let outer = |port: usize| {
        let mut dims = operand(at, port)?;
        dims.truncate(dims.len().checked_sub(2)?);
        Some(dims)
    };
    let mut dims = broadcast(&[outer(0)?, outer(1)?]);
    dims.extend([Some(rows.clone()), Some(cols.clone())]);
    Some(Inferred { dims, ints: None })
}

fn gemm(at: &NodeExtents<'_>) -> Inferred {
    let side = |port: usize, transposed: &str, axis: usize| {
        at.dims(port)?.get(if int(at, transposed) == Some(1) { 1 - axis } else { axis }).cloned()
    };
    Inferred { dims: vec![side(0, "transA", 0), side(1, "transB", 1)], ints: None }
}

/// Returns the extents of an input, with the dimensions that the plan uses.
fn operand(at: &NodeExtents<'_>, port: usize) -> Option<Vec<(Dim, Extent)>> {
    let shape = at.desc(port).full_shape();
    Some(shape.iter().zip(at.dims(port)?.iter().cloned()).collect())
}

/// Returns the broadcast extents: extents other than 1 must be equal to be known.
fn broadcast(all: &[Vec<(Dim, Extent)>]) -> Vec<Option<Extent>> {
    let rank = all.iter().map(Vec::len).max().unwrap_or(0);
    let axis = |from_last: usize| {
        let own = all.iter().filter_map(|dims| dims.get(dims.len().checked_sub(from_last)?));
        let mut long = own.filter(|(dim, _)| dim.exact() != Some(1)).map(|(_, extent)| extent);
        let Some(first) = long.next() else { return Some(Extent::constant(1)) };
        long.all(|other| other == first).then(|| first.clone())
    };
    (1..=rank).rev().map(axis).collect()
}

fn reshape(at: &NodeExtents<'_>) -> Option<Inferred> {
    let (from, stated) = (at.dims(0)?, at.ints(1)?);
    let keeps_zero = int(at, "allowzero") == Some(1);
    let (mut dims, mut rest) = (Vec::new(), None);
    for (axis, extent) in stated.iter().enumerate() {
        dims.push(match extent.number() {
            Some(-1) => {
                rest = Some(axis);
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
    if let Some(axis) = rest {
        let others: Option<Vec<&Extent>> = dims
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != axis)
            .map(|(_, dim)| dim.as_ref())
            .collect();
        dims[axis] =
            others.and_then(|others| Extent::product(from)?.over(&Extent::product(others)?));
    }
    Some(Inferred { dims, ints: at.ints(0).map(<[Extent]>::to_vec) })
}

fn expand(at: &NodeExtents<'_>) -> Option<Inferred> {
    let stated = at.ints(1)?.iter().map(|extent| {
        let number = extent.number().and_then(|number| usize::try_from(number).ok());
        (number.map_or(Dim::UpTo(usize::MAX), Dim::Fixed), extent.clone())
    });
    Some(Inferred { dims: broadcast(&[operand(at, 0)?, stated.collect()]), ints: None })
}

fn range(at: &NodeExtents<'_>) -> Option<Inferred> {
    let [[start], [limit], [step]] = [at.ints(0)?, at.ints(1)?, at.ints(2)?] else { return None };
    let len = limit.minus(start).filter(|len| step.number() == Some(1) && is_there(at, len));
    Some(Inferred { dims: vec![len], ints: None })
}

/// Returns the axes of a view, which are an input.
fn axes(at: &NodeExtents<'_>, rank: usize) -> Option<Vec<usize>> {
    at.numbers(1)?.into_iter().map(|axis| resolve_axis(axis, rank)).collect()
}

fn squeeze(at: &NodeExtents<'_>) -> Option<Inferred> {
    let (x, dims) = (at.desc(0), at.dims(0)?);
    let gone = match at.bound.node.input(1) {
        Some(_) => axes(at, x.rank())?,
        None if x.full_shape().is_fixed() => {
            (0..x.rank()).filter(|&axis| x.shape()[axis] == 1).collect()
        }
        None => return None,
    };
    let kept = dims.iter().enumerate().filter(|(axis, _)| !gone.contains(axis));
    let dims = kept.map(|(_, extent)| Some(extent.clone())).collect();
    Some(Inferred { dims, ints: at.ints(0).map(<[Extent]>::to_vec) })
}

fn unsqueeze(at: &NodeExtents<'_>) -> Option<Inferred> {
    let dims = at.dims(0)?;
    let rank = dims.len().checked_add(at.numbers(1)?.len())?;
    let (new, mut own) = (axes(at, rank)?, dims.iter());
    let dim =
        |axis| if new.contains(&axis) { Some(Extent::constant(1)) } else { own.next().cloned() };
    let dims = (0..rank).map(dim).collect();
    Some(Inferred { dims, ints: at.ints(0).map(<[Extent]>::to_vec) })
}

fn reduce(at: &NodeExtents<'_>) -> Option<Inferred> {
    let x = at.dims(0)?;
    let gone = axes(at, x.len())?;
    let keeps = int(at, "keepdims") == Some(1);
    let dims = x.iter().enumerate().filter_map(|(axis, extent)| match gone.contains(&axis) {
        true if keeps => Some(Some(Extent::constant(1))),
        true => None,
        false => Some(Some(extent.clone())),
    });
    // Without axes, the reduction may be over all of them.
    Some(Inferred { dims: dims.collect(), ints: None }).filter(|_| !gone.is_empty())
}

/// Attention of separate heads; the output's shape determines the width of the values.
fn attention(at: &NodeExtents<'_>) -> Option<Inferred> {
    let (q, v) = (at.dims(0)?, at.dims(2)?);
    let (width, outer) = (v.last()?, q.get(..q.len().checked_sub(1)?)?);
    let width = (q.len() == 4).then(|| width.clone());
    Some(Inferred { dims: free_after(outer).into_iter().chain([width]).collect(), ints: None })
}

/// Attention of rows: each row of queries yields one row.
fn rows(at: &NodeExtents<'_>) -> Option<Inferred> {
    let [batch, length, _] = at.dims(0)? else { return None };
    Some(Inferred { dims: vec![Some(batch.clone()), Some(length.clone()), None], ints: None })
}

fn elementwise(at: &NodeExtents<'_>, op: &str) -> Option<Inferred> {
    let operands = 0..at.bound.node.inputs.len();
    let present = operands.filter(|&port| at.bound.node.input(port).is_some());
    let all: Option<Vec<_>> = present.map(|port| operand(at, port)).collect();
    Some(Inferred { dims: broadcast(&all?), ints: computed(at, op) })
}

/// Returns integers that are computed from other integers.
fn computed(at: &NodeExtents<'_>, op: &str) -> Option<Vec<Extent>> {
    let a = at.ints(0)?;
    let is_int = |desc: TensorDesc| desc.dtype().is_some_and(|dtype| !dtype.is_float());
    if matches!(op, "Cast" | "Identity") {
        return is_int(at.graph.desc(at.bound.node.output(0))).then(|| a.to_vec());
    }
    let b = at.ints(1)?;
    let of: fn(&Extent, &Extent) -> Option<Extent> = match op {
        "Add" => Extent::plus,
        "Sub" => Extent::minus,
        "Mul" => Extent::times,
        _ => return None,
    };
    let len = a.len().max(b.len());
    let get = |x: &[Extent], at: usize| x.get(if x.len() == 1 { 0 } else { at }).cloned();
    (0..len).map(|at| of(&get(a, at)?, &get(b, at)?)).collect()
}
