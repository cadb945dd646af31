//! Maps the operations of `NNRt` that move elements, change shapes, or return shapes.

use udo_api::DType;

use super::math::check_type;
use super::{Lower, Result, invalid};
use udo_engine::device::{Extent, SpecDetails};
use udo_graph::graph::{Attr, ValueId};

/// The indices of two choices of attribute `padding_mode`.
const REFLECT: i64 = 1;
const SYMMETRIC: i64 = 2;

pub(super) fn concat(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let inputs = (0..lower.count()).map(|port| lower.x(port)).collect::<Result<Vec<_>>>()?;
    let y = lower.node("Concat", &inputs, &[("axis", Attr::Int(axis))]);
    lower.give(0, y)
}

pub(super) fn stack(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let axes = lower.int_list(&[axis])?;
    let mut inputs = Vec::with_capacity(lower.count());
    for port in 0..lower.count() {
        let x = lower.x(port)?;
        inputs.push(lower.node("Unsqueeze", &[x, axes], &[]));
    }
    let y = lower.node("Concat", &inputs, &[("axis", Attr::Int(axis))]);
    lower.give(0, y)
}

pub(super) fn unstack(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let parts = parts(lower, axis, None)?;
    let axes = lower.int_list(&[axis])?;
    for (port, part) in parts.into_iter().enumerate() {
        let y = lower.node("Squeeze", &[part, axes], &[]);
        lower.give(port, y)?;
    }
    Ok(())
}

pub(super) fn split(lower: &mut Lower<'_>) -> Result<()> {
    let count = lower.output_count();
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if lower.has("output_num") && lower.int("output_num")? != count {
        let found = lower.int("output_num")?;
        return Err(invalid(format!("attribute \"output_num\" is {found}, expected {count}")));
    }
    let axis = lower.int("axis")?;
    let sizes = match lower.list("size_splits").filter(|sizes| !sizes.is_empty()) {
        Some(sizes) => Some(resolved_sizes(lower, axis, sizes)?),
        None => None,
    };
    let parts = parts(lower, axis, sizes.as_deref())?;
    parts.into_iter().enumerate().try_for_each(|(port, part)| lower.give(port, part))
}

/// Returns sizes in which a -1 is replaced by the rest of the axis.
fn resolved_sizes(lower: &Lower<'_>, axis: i64, mut sizes: Vec<i64>) -> Result<Vec<i64>> {
    if sizes.iter().all(|&size| size != -1) {
        return Ok(sizes);
    }
    let axis = Lower::axis_of(axis, lower.rank(0)?)?;
    let extent = lower.extents(0)?.get(axis).copied().unwrap_or(0);
    let mut stated = sizes.iter().filter(|&&size| size != -1);
    let sum = stated.try_fold(0i64, |sum, &size| sum.checked_add(size));
    let left = sum.and_then(|sum| i64::try_from(extent).ok()?.checked_sub(sum));
    let left = left.filter(|left| *left >= 0).ok_or_else(|| {
        invalid(format!(
            "attribute \"size_splits\" is {sizes:?}, expected a sum of at most {extent}"
        ))
    })?;
    sizes.iter_mut().filter(|size| **size == -1).for_each(|size| *size = left);
    Ok(sizes)
}

/// Splits input 0 into as many parts as there are outputs.
fn parts(lower: &mut Lower<'_>, axis: i64, sizes: Option<&[i64]>) -> Result<Vec<ValueId>> {
    let count = lower.output_count();
    let mut inputs = vec![Some(lower.x(0)?)];
    let mut attrs = vec![("axis", Attr::Int(axis))];
    match sizes {
        Some(sizes) => inputs.push(Some(lower.int_list(sizes)?)),
        None => attrs.push(("num_outputs", Attr::Int(i64::try_from(count).unwrap_or(i64::MAX)))),
    }
    Ok(lower.nodes("Split", &inputs, &attrs, count))
}

pub(super) fn expand_dims(lower: &mut Lower<'_>) -> Result<()> {
    let axes = lower.ints(1)?;
    let x = lower.x(0)?;
    let y = lower.node("Unsqueeze", &[x, axes], &[]);
    lower.give(0, y)
}

pub(super) fn unsqueeze(lower: &mut Lower<'_>) -> Result<()> {
    let axes = lower.list("axis").ok_or_else(|| invalid("attribute \"axis\" is missing"))?;
    let axes = lower.int_list(&axes)?;
    let x = lower.x(0)?;
    let y = lower.node("Unsqueeze", &[x, axes], &[]);
    lower.give(0, y)
}

pub(super) fn squeeze(lower: &mut Lower<'_>) -> Result<()> {
    let mut inputs = vec![lower.x(0)?];
    if let Some(axes) = lower.list("axis").filter(|axes| !axes.is_empty()) {
        inputs.push(lower.int_list(&axes)?);
    }
    let y = lower.node("Squeeze", &inputs, &[]);
    lower.give(0, y)
}

pub(super) fn reshape(lower: &mut Lower<'_>) -> Result<()> {
    let dims = lower.ints(1)?;
    let x = lower.x(0)?;
    let y = lower.node("Reshape", &[x, dims], &[]);
    lower.give(0, y)
}

pub(super) fn flatten(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let x = lower.x(0)?;
    let y = lower.node("Flatten", &[x], &[("axis", Attr::Int(axis))]);
    lower.give(0, y)
}

pub(super) fn transpose(lower: &mut Lower<'_>) -> Result<()> {
    let perm = lower.known(1)?;
    let x = lower.x(0)?;
    let y = lower.node("Transpose", &[x], &[("perm", Attr::Ints(perm))]);
    lower.give(0, y)
}

pub(super) fn fill(lower: &mut Lower<'_>) -> Result<()> {
    let dims = lower.ints(1)?;
    let value = lower.x(0)?;
    let value = lower.reshaped(value, &[])?;
    let y = lower.node("Expand", &[value, dims], &[]);
    lower.give(0, y)
}

pub(super) fn broadcast_to(lower: &mut Lower<'_>) -> Result<()> {
    let dims = lower.list("shape").ok_or_else(|| invalid("attribute \"shape\" is missing"))?;
    // -1 keeps an extent, and so does 1.
    let dims: Vec<i64> = dims.into_iter().map(|dim| if dim == -1 { 1 } else { dim }).collect();
    let dims = lower.int_list(&dims)?;
    let x = lower.x(0)?;
    let y = lower.node("Expand", &[x, dims], &[]);
    lower.give(0, y)
}

pub(super) fn tile(lower: &mut Lower<'_>) -> Result<()> {
    let repeats = match lower.list("dims").filter(|dims| !dims.is_empty()) {
        None => lower.ints(1)?,
        Some(dims) => {
            let (times, rank) = (lower.known(1)?, lower.rank(0)?);
            if times.len() != dims.len() {
                return Err(invalid(format!(
                    "attribute \"dims\" is {dims:?} and input 1 is {times:?}, expected as many"
                )));
            }
            let mut repeats = vec![1; rank];
            for (&dim, times) in dims.iter().zip(times) {
                let axis = Lower::axis_of(dim, rank)?;
                repeats.iter_mut().skip(axis).take(1).for_each(|repeat| *repeat = times);
            }
            lower.int_list(&repeats)?
        }
    };
    let x = lower.x(0)?;
    let y = lower.node("Tile", &[x, repeats], &[]);
    lower.give(0, y)
}

pub(super) fn gather(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.known_int(2)?;
    let inputs = [lower.x(0)?, lower.stored(1)?];
    let y = lower.node("Gather", &inputs, &[("axis", Attr::Int(axis))]);
    lower.give(0, y)
}

pub(super) fn gather_nd(lower: &mut Lower<'_>) -> Result<()> {
    let indices = index_tuples(lower, 1)?;
    let x = lower.x(0)?;
    let y = lower.node("GatherND", &[x, indices], &[]);
    lower.give(0, y)
}

/// Returns input `port` as i64, in its own shape.
fn index_tuples(lower: &mut Lower<'_>, port: usize) -> Result<ValueId> {
    let (value, dtype) = (lower.stored(port)?, lower.input(port)?.dtype());
    Ok(if dtype == DType::I64 { value } else { lower.cast(value, DType::I64) })
}

/// Adds updates to zeros at the indexed positions.
pub(super) fn scatter_nd(lower: &mut Lower<'_>) -> Result<()> {
    let dtype = lower.real_type(1)?;
    let zeros = zeros(lower, 2, dtype)?;
    let indices = index_tuples(lower, 0)?;
    let updates = lower.x(1)?;
    let add = [("reduction", Attr::Text("add".to_owned()))];
    let y = lower.node("ScatterND", &[zeros, indices, updates], &add);
    lower.give(0, y)
}

/// Writes values into zeros at positions that are rows of indices, or single indices.
pub(super) fn sparse_to_dense(lower: &mut Lower<'_>) -> Result<()> {
    let dtype = lower.real_type(1)?;
    let zeros = zeros(lower, 2, dtype)?;
    let mut indices = index_tuples(lower, 0)?;
    let rank = lower.rank(0)?;
    if rank > 2 {
        return Err(invalid(format!(
            "input 0 is {}, expected at most 2 dimensions",
            lower.input(0)?
        )));
    }
    if rank < 2 {
        indices = lower.reshaped(indices, &[-1, 1])?;
    }
    let mut values = lower.x(1)?;
    if lower.rank(1)? == 0 {
        // One value for all positions.
        let shape = lower.node("Shape", &[indices], &[("end", Attr::Int(1))]);
        values = lower.node("Expand", &[values, shape], &[]);
    }
    let y = lower.node("ScatterND", &[zeros, indices, values], &[]);
    lower.give(0, y)
}

/// Returns zeros of the shape that input `port` states.
fn zeros(lower: &mut Lower<'_>, port: usize, dtype: DType) -> Result<ValueId> {
    let shape = lower.ints(port)?;
    let zero = lower.constant(&[], &[0f32])?;
    let zero = lower.cast(zero, dtype);
    Ok(lower.node("Expand", &[zero, shape], &[]))
}

pub(super) fn constant_of_shape(lower: &mut Lower<'_>) -> Result<()> {
    let value = lower.floats("value").unwrap_or_else(|| vec![0.0]);
    let &[value] = value.as_slice() else {
        return Err(invalid(format!("attribute \"value\" is {value:?}, expected one number")));
    };
    if lower.has("data_type") {
        let dtype = lower.output(0)?.dtype();
        check_type("attribute \"data_type\"", lower.int("data_type")?, dtype)?;
    }
    let shape = lower.ints(0)?;
    let value = lower.constant(&[], &[value])?;
    let y = lower.node("Expand", &[value, shape], &[]);
    lower.give_cast(0, y)
}

pub(super) fn one_hot(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let mut values = Vec::with_capacity(2);
    // ONNX expects the value for other positions first.
    for port in [3, 2] {
        let value = lower.x(port)?;
        values.push(lower.reshaped(value, &[1])?);
    }
    let values = lower.node("Concat", &values, &[("axis", Attr::Int(0))]);
    let (indices, depth) = (index_tuples(lower, 0)?, lower.ints(1)?);
    let y = lower.node("OneHot", &[indices, depth, values], &[("axis", Attr::Int(axis))]);
    lower.give(0, y)
}

pub(super) fn pad(lower: &mut Lower<'_>) -> Result<()> {
    let mode = lower.int("padding_mode")?;
    if mode == SYMMETRIC {
        return symmetric(lower);
    }
    // The pairs for each axis become all begins, then all ends.
    let pads = index_tuples(lower, 1)?;
    let pads = lower.transposed(pads, &[1, 0]);
    let pads = lower.reshaped(pads, &[-1])?;
    let x = lower.x(0)?;
    let y = if mode == REFLECT {
        lower.node("Pad", &[x, pads], &[("mode", Attr::Text("reflect".to_owned()))])
    } else {
        let value = lower.float("constant_value")?;
        let value = lower.number(0, value)?;
        lower.node("Pad", &[x, pads, value], &[])
    };
    lower.give(0, y)
}

/// Pads by mirroring at the edges, including the edge elements: gathers positions along each axis.
fn symmetric(lower: &mut Lower<'_>) -> Result<()> {
    let pads = lower.known(1)?;
    let extents = lower.extents(0)?;
    let mut y = lower.x(0)?;
    for (axis, &extent) in extents.iter().enumerate() {
        let &[begin, end] = pads.get(2 * axis..2 * axis + 2).unwrap_or_default() else {
            return Err(invalid(format!("input 1 is {pads:?}, expected two for each dimension")));
        };
        if (begin, end) == (0, 0) {
            continue;
        }
        let len = i64::try_from(extent).unwrap_or(i64::MAX);
        if !(0..=len).contains(&begin) || !(0..=len).contains(&end) {
            return Err(invalid(format!(
                "input 1 pads dimension {axis} by {begin} and {end}, expected 0 to {len}"
            )));
        }
        let positions = (0..begin).rev().chain(0..len).chain((len - end..len).rev());
        let positions = lower.int_list(&positions.collect::<Vec<_>>())?;
        let axis = Attr::Int(i64::try_from(axis).unwrap_or(i64::MAX));
        y = lower.node("Gather", &[y, positions], &[("axis", axis)]);
    }
    lower.give(0, y)
}

pub(super) fn slice(lower: &mut Lower<'_>) -> Result<()> {
    let (begin, size) = (lower.ints(1)?, lower.ints(2)?);
    // A size of -1 means the rest of the axis.
    let [rest, last] = [lower.int_list(&[-1])?, lower.int_list(&[i64::MAX])?];
    let ends = lower.node("Add", &[begin, size], &[]);
    let is_rest = lower.node("Equal", &[size, rest], &[]);
    let ends = lower.node("Where", &[is_rest, last, ends], &[]);
    let mut inputs = vec![lower.x(0)?, begin, ends];
    if let Some(axes) = lower.list("axes").filter(|axes| !axes.is_empty()) {
        inputs.push(lower.int_list(&axes)?);
    }
    let y = lower.node("Slice", &inputs, &[]);
    lower.give(0, y)
}

pub(super) fn crop(lower: &mut Lower<'_>) -> Result<()> {
    let axis = lower.int("axis")?;
    let offset = lower.list("offset").unwrap_or_default();
    let inputs = [lower.x(0)?, lower.x(1)?];
    let attrs = [("axis", Attr::Int(axis)), ("offset", Attr::Ints(offset))];
    let y = lower.node("udo:Crop", &inputs, &attrs);
    lower.give(0, y)
}

/// The masks of a strided slice, as in TensorFlow's `StridedSlice`: bit `i` of a mask is for entry `i` of the slice.
#[derive(Clone, Copy)]
struct Masks {
    begin: i64,
    end: i64,
    ellipsis: i64,
    new_axis: i64,
    shrink: i64,
}

impl Masks {
    fn read(lower: &Lower<'_>) -> Result<Self> {
        Ok(Self {
            begin: lower.int("begin_mask")?,
            end: lower.int("end_mask")?,
            ellipsis: lower.int("ellipsis_mask")?,
            new_axis: lower.int("new_axis_mask")?,
            shrink: lower.int("shrink_axis_mask")?,
        })
    }

    fn is_empty(self) -> bool {
        let Self { begin, end, ellipsis, new_axis, shrink } = self;
        begin | end | ellipsis | new_axis | shrink == 0
    }
}

/// A slice in the manner of Python, for example `x[1:3, ..., -1]`.
#[derive(Default)]
struct Slices {
    axes: Vec<i64>,
    begins: Vec<i64>,
    ends: Vec<i64>,
    steps: Vec<i64>,
    /// Axes of `x` that are removed.
    shrunk: Vec<i64>,
    /// Axes that are added to the result.
    added: Vec<i64>,
}

impl Slices {
    /// Returns the slice that numbers and masks describe, for a tensor of this rank.
    fn new(numbers: [&[i64]; 3], masks: Masks, rank: usize) -> Result<Self> {
        let [begins, ends, steps] = numbers;
        let count = begins.len();
        if ends.len() != count || steps.len() != count {
            return Err(invalid(format!(
                "{count} begins, {} ends and {} strides, expected as many",
                ends.len(),
                steps.len()
            )));
        }
        let is_set = |mask: i64, entry: usize| mask >> entry.min(63) & 1 == 1;
        let is_new = |entry: usize| is_set(masks.new_axis, entry) && !is_set(masks.ellipsis, entry);
        let sliced =
            (0..count).filter(|&entry| !is_new(entry) && !is_set(masks.ellipsis, entry)).count();
        let skipped = rank.checked_sub(sliced).ok_or_else(|| {
            invalid(format!("{sliced} dimensions are sliced, expected at most {rank}"))
        })?;
        // The next axis of x, and the next axis of the result.
        let (mut slices, mut axis, mut result_axis) = (Self::default(), 0i64, 0i64);
        for (entry, ((&begin, &end), &step)) in begins.iter().zip(ends).zip(steps).enumerate() {
            if is_set(masks.ellipsis, entry) {
                let skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
                axis = axis.saturating_add(skipped);
                result_axis = result_axis.saturating_add(skipped);
            } else if is_new(entry) {
                slices.added.push(result_axis);
                result_axis += 1;
            } else if is_set(masks.shrink, entry) {
                let end = if begin == -1 { i64::MAX } else { begin.saturating_add(1) };
                slices.push(axis, [begin, end, 1]);
                slices.shrunk.push(axis);
                axis += 1;
            } else {
                let (first, last) = if step < 0 { (i64::MAX, i64::MIN) } else { (0, i64::MAX) };
                let begin = if is_set(masks.begin, entry) { first } else { begin };
                let end = if is_set(masks.end, entry) { last } else { end };
                slices.push(axis, [begin, end, step]);
                (axis, result_axis) = (axis + 1, result_axis + 1);
            }
        }
        Ok(slices)
    }

    fn push(&mut self, axis: i64, [begin, end, step]: [i64; 3]) {
        self.axes.push(axis);
        self.begins.push(begin);
        self.ends.push(end);
        self.steps.push(step);
    }
}

pub(super) fn strided_slice(lower: &mut Lower<'_>) -> Result<()> {
    let masks = Masks::read(lower)?;
    if masks.is_empty() {
        let numbers = [lower.ints(1)?, lower.ints(2)?, lower.ints(3)?];
        let [begins, ends, steps] = numbers;
        let axes = match lower.input(1)?.extent(0) {
            Some(Extent::Fixed(n)) => (0i64..).take(n).collect::<Vec<_>>(),
            _ => (0i64..).take(lower.rank(0)?).collect(),
        };
        let axes = lower.int_list(&axes)?;
        let x = lower.x(0)?;
        let y = lower.node("Slice", &[x, begins, ends, axes, steps], &[]);
        return lower.give(0, y);
    }
    let numbers = [lower.known(1)?, lower.known(2)?, lower.known(3)?];
    let numbers = [&*numbers[0], &*numbers[1], &*numbers[2]];
    let slices = Slices::new(numbers, masks, lower.rank(0)?)?;
    let mut y = lower.x(0)?;
    if !slices.axes.is_empty() {
        let lists = [&slices.begins, &slices.ends, &slices.axes, &slices.steps];
        let mut inputs = vec![y];
        for list in lists {
            inputs.push(lower.int_list(list)?);
        }
        y = lower.node("Slice", &inputs, &[]);
    }
    for (op, axes) in [("Squeeze", &slices.shrunk), ("Unsqueeze", &slices.added)] {
        if !axes.is_empty() {
            let axes = lower.int_list(axes)?;
            y = lower.node(op, &[y, axes], &[]);
        }
    }
    lower.give(0, y)
}

pub(super) fn shape(lower: &mut Lower<'_>) -> Result<()> {
    let x = lower.stored(0)?;
    let y = lower.node("Shape", &[x], &[]);
    lower.give_cast(0, y)
}

pub(super) fn rank(lower: &mut Lower<'_>) -> Result<()> {
    let x = lower.stored(0)?;
    let shape = lower.node("Shape", &[x], &[]);
    let y = lower.node("Size", &[shape], &[]);
    lower.give_cast(0, y)
}

/// Returns `start, start + delta, ..` up to `limit`, from parameters or from three tensors.
pub(super) fn range(lower: &mut Lower<'_>) -> Result<()> {
    let mut inputs = Vec::with_capacity(3);
    match lower.count() {
        3 => {
            for port in 0..3 {
                let number = lower.x(port)?;
                inputs.push(lower.reshaped(number, &[])?);
            }
        }
        0 | 1 => {
            for name in ["start", "limit", "delta"] {
                let number = lower.int(name)?;
                inputs.push(lower.constant(&[], &[number])?);
            }
        }
        count => {
            return Err(invalid(format!(
                "{count} inputs, expected start, limit and delta, or attributes for them"
            )));
        }
    }
    let y = lower.node("Range", &inputs, &[]);
    lower.give_cast(0, y)
}
