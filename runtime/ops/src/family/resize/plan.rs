//! The parameters of a resizing node.

use udo_api::{DType, Dim, Error, Node, Param, Port, Shape, TensorDesc, Value, types};

use super::axis::{Axis, Coordinates, Filter, Nearest, Sampling, Scale};
use crate::family::argument::constant_floats;
use crate::family::axes::resolve_axes;

/// Parameters of `Resize`.
pub(crate) const PARAMS: &[Param] = &[
    Param::scalar("antialias", DType::I64).default(Value::int(0)),
    Param::tensor("axes", DType::I64).optional(),
    Param::text("coordinate_transformation_mode").default(Value::text("half_pixel")),
    Param::scalar("cubic_coeff_a", DType::F32).default(Value::float(-0.75)),
    Param::scalar("exclude_outside", DType::I64).default(Value::int(0)),
    Param::scalar("extrapolation_value", DType::F32).default(Value::float(0.0)),
    Param::text("keep_aspect_ratio_policy").default(Value::text("stretch")),
    Param::text("mode").default(Value::text("nearest")),
    Param::text("nearest_mode").default(Value::text("round_prefer_floor")),
];

/// The region of `tf_crop_and_resize`. Other modes ignore it, so it need not be constant for them.
pub(crate) const ROI: Port = Port::optional("roi", types::FLOATS);
/// The factor of each axis.
pub(crate) const SCALES: Port = Port::optional("scales", types::F32).constant();
/// The output extent of each axis.
pub(crate) const SIZES: Port = Port::optional("sizes", types::I64).constant();

/// The region that covers the whole axis.
const WHOLE: [f32; 2] = [0.0, 1.0];

/// Chooses one of two scales for all axes; `None` keeps a scale per axis.
type Policy = Option<fn(Scale, Scale) -> Scale>;

/// How a tensor is resized.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) sampling: Sampling,
    /// The resizing of each axis; `None` for an axis that is not resized.
    pub(crate) axes: Vec<Option<Axis>>,
    /// The value of samples outside the region.
    pub(crate) extrapolation: f64,
}

impl Plan {
    /// Reads the node's resizing of `x`.
    pub(crate) fn read(node: &Node<'_>, x: &TensorDesc) -> Result<Self, Error> {
        let sampling = sampling(node)?;
        let axis_indices = selected_axes(node, x.rank())?;
        let mut axes = extents(node, x, &axis_indices)?;
        let is_region = sampling.coordinates == Coordinates::TfCropAndResize;
        if is_region {
            let roi = region(node, axis_indices.len())?;
            for (axis, region) in axes.iter_mut().zip(roi) {
                axis.region = region;
            }
        }
        let mut resized = vec![None; x.rank()];
        for (&axis_index, axis) in axis_indices.iter().zip(&axes) {
            let is_whole = axis.region.map(f32::to_bits) == WHOLE.map(f32::to_bits);
            let is_one = (axis.scale.number() - 1.0).abs() <= f64::from(f32::EPSILON);
            let is_unchanged = axis.from == axis.to && is_one && is_whole;
            if !is_unchanged {
                check(x, axis_index, axis)?;
                resized[axis_index] = Some(*axis);
            }
        }
        let extrapolation = node.float("extrapolation_value")?;
        Ok(Self { sampling, axes: resized, extrapolation })
    }

    /// Returns the output's shape for input `x`.
    pub(crate) fn shape(&self, x: &TensorDesc) -> Result<Shape, Error> {
        let dims = x.full_shape();
        let dims = dims.iter().zip(&self.axes);
        let dims = dims.map(|(dim, axis)| axis.map_or(dim, |axis| dim.with(axis.to)));
        Shape::from_dims(&dims.collect::<Vec<_>>())
    }
}

/// Checks that an axis can be resized.
fn check(x: &TensorDesc, axis_index: usize, axis: &Axis) -> Result<(), Error> {
    let refused = |what: &str| Err(Error::new(format!("input 0 is {x}: axis {axis_index} {what}")));
    if matches!(x.full_shape().dim(axis_index), Some(Dim::UpTo(_))) {
        return refused("is resized, expected a fixed extent");
    }
    if axis.from == 0 && axis.to > 0 {
        return refused("has no elements, expected at least one to sample");
    }
    if u32::try_from(axis.from.max(axis.to)).is_err() {
        return refused("has too many elements for a table, expected fewer than 4294967296");
    }
    Ok(())
}

/// Maps a text parameter to its value.
fn choice<T: Copy>(node: &Node<'_>, name: &str, known: &[(&str, T)]) -> Result<T, Error> {
    let found = node.text(name)?;
    let chosen = known.iter().find(|(known, _)| *known == found);
    chosen.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
        Error::new(format!("parameter {name:?} is {found:?}, expected one of {}", known.join(", ")))
    })
}

/// Reads how positions are sampled.
fn sampling(node: &Node<'_>) -> Result<Sampling, Error> {
    let coordinates = choice(
        node,
        "coordinate_transformation_mode",
        &[
            ("half_pixel", Coordinates::HalfPixel),
            ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
            ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
            ("align_corners", Coordinates::AlignCorners),
            ("asymmetric", Coordinates::Asymmetric),
            // Opsets 11 and 12 only.
            ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
            ("tf_crop_and_resize", Coordinates::TfCropAndResize),
        ],
    )?;
    let nearest = choice(
        node,
        "nearest_mode",
        &[
            ("round_prefer_floor", Nearest::RoundPreferFloor),
            ("round_prefer_ceil", Nearest::RoundPreferCeil),
            ("floor", Nearest::Floor),
            ("ceil", Nearest::Ceil),
        ],
    )?;
    let cubic = Filter::Cubic(node.float("cubic_coeff_a")?);
    let filters =
        [("nearest", Filter::Nearest(nearest)), ("linear", Filter::Linear), ("cubic", cubic)];
    let filter = choice(node, "mode", &filters)?;
    let antialias = node.flag("antialias")?;
    if antialias && matches!(filter, Filter::Nearest(_)) {
        return Err(Error::new(
            "parameter \"antialias\" is 1, expected 0, because mode \"nearest\" has no filter",
        ));
    }
    let excludes_outside = node.flag("exclude_outside")?;
    Ok(Sampling { coordinates, filter, antialias, excludes_outside })
}

/// Returns the axes that scales, sizes and regions refer to, in order.
fn selected_axes(node: &Node<'_>, rank: usize) -> Result<Vec<usize>, Error> {
    if !node.has_param("axes") {
        return Ok((0..rank).collect());
    }
    let axes = node.ints("axes")?;
    resolve_axes(axes, rank).ok_or_else(|| {
        Error::new(format!(
            "parameter \"axes\" is {axes:?}, expected different axes of rank {rank}"
        ))
    })
}

/// Whether the node has input `port`. Before opset 13, an empty tensor stood for an absent one.
fn has_elements(node: &Node<'_>, port: usize) -> Result<bool, Error> {
    Ok(node.has_input(port) && !node.input(port)?.is_empty())
}

/// Returns the resizing of the selected axes of `x`, by scales or by sizes.
fn extents(node: &Node<'_>, x: &TensorDesc, axis_indices: &[usize]) -> Result<Vec<Axis>, Error> {
    let count_is = |port: usize, found: usize| {
        let expected = axis_indices.len();
        let refused = || {
            format!("input {port} has {found} numbers, expected one for each of {expected} axes")
        };
        if found == expected { Ok(()) } else { Err(Error::new(refused())) }
    };
    let unknown = |port: usize| Error::new(format!("input {port} is not known before the run"));
    let from: Vec<usize> = axis_indices.iter().map(|&axis_index| x.shape()[axis_index]).collect();
    match (has_elements(node, 2)?, has_elements(node, 3)?) {
        (true, false) => {
            let scales = node.constant::<f32>(2)?.ok_or_else(|| unknown(2))?;
            count_is(2, scales.len())?;
            from.iter().zip(scales).map(|(&from, &scale)| scaled(from, scale)).collect()
        }
        (false, true) => {
            let sizes = node.constant::<i64>(3)?.ok_or_else(|| unknown(3))?;
            count_is(3, sizes.len())?;
            sized(node, &from, sizes)
        }
        (true, true) => {
            Err(Error::new("inputs 2 and 3 are both present, expected either scales or sizes"))
        }
        (false, false) => {
            Err(Error::new("inputs 2 and 3 are both missing, expected scales or sizes"))
        }
    }
}

/// Returns an axis resized by a scale.
fn scaled(from: usize, scale: f32) -> Result<Axis, Error> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(Error::new(format!("input 2 has the scale {scale}, expected more than 0")));
    }
    // Computed in f32, as ONNX's shape inference and ONNX Runtime do; f64 can give another extent.
    let length = from as f32 * scale;
    let to = if scale.to_bits() == 1f32.to_bits() { from } else { length.floor() as usize };
    Ok(Axis { from, to, scale: Scale::of_number(scale), region: WHOLE })
}

fn smaller(one: Scale, other: Scale) -> Scale {
    if other.is_below(one) { other } else { one }
}

fn larger(one: Scale, other: Scale) -> Scale {
    if one.is_below(other) { other } else { one }
}

/// Returns axes resized to `sizes`, or by a common scale if `keep_aspect_ratio_policy` requires one.
fn sized(node: &Node<'_>, from: &[usize], sizes: &[i64]) -> Result<Vec<Axis>, Error> {
    let refused = || Error::new(format!("input 3 is {sizes:?}, expected sizes of at least 0"));
    let sizes: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
    let sizes = sizes.ok_or_else(refused)?;
    let scales = from
        .iter()
        .zip(&sizes)
        .map(|(&from, &to)| if from == 0 { Scale::ONE } else { Scale::of_extents(to, from) });
    let policies: [(&str, Policy); 3] =
        [("stretch", None), ("not_larger", Some(smaller)), ("not_smaller", Some(larger))];
    let Some(bound) = choice(node, "keep_aspect_ratio_policy", &policies)? else {
        let axes = scales.zip(from.iter().zip(&sizes));
        let axes = axes.map(|(scale, (&from, &to))| Axis { from, to, scale, region: WHOLE });
        return Ok(axes.collect());
    };
    let scale = scales.reduce(bound).unwrap_or(Scale::ONE);
    let axis = |&from: &usize| Axis { from, to: scale.rounded(from), scale, region: WHOLE };
    Ok(from.iter().map(axis).collect())
}

/// Reads the region of each axis: all starts, then all ends.
fn region(node: &Node<'_>, count: usize) -> Result<Vec<[f32; 2]>, Error> {
    let misfit = || {
        Error::new(format!(
            "mode \"tf_crop_and_resize\" wants {} numbers in input 1, the roi, known before the run",
            2 * count
        ))
    };
    if !has_elements(node, 1)? {
        return if count == 0 { Ok(Vec::new()) } else { Err(misfit()) };
    }
    let roi = match node.input(1)?.dtype() {
        Some(DType::F64) => node.constant::<f64>(1)?.map(|x| x.iter().map(|&x| x as f32).collect()),
        _ => constant_floats(node, 1)?,
    };
    let roi = roi.filter(|roi| roi.len() == 2 * count).ok_or_else(misfit)?;
    let (starts, ends) = roi.split_at(count);
    Ok(starts.iter().zip(ends).map(|(&start, &end)| [start, end]).collect())
}
