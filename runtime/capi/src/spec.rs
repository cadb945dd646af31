//! Descriptions of tensors.

use std::mem::MaybeUninit;

use udo_api::{AxisEncoding, Encoding, Encodings};
use udo_engine::device;
use udo_engine::device::{Result, SpecDetails};
use udo_runtime::device::Extent;

use crate::argument::{invalid, need, place};
use crate::born::{Born, handles, live};
use crate::codes::{DTypeCode, LayoutCode, PackingCode, dtype, dtype_code, layout, packing};
use crate::error::Error;
use crate::ffi::{Dims, DimsMut, Scales, ZeroPoints, guard, hand_out, release};

/// The type, dimensions and memory layout of a tensor. Dimensions may be open.
#[derive(Debug)]
pub struct TensorSpec(pub(crate) device::TensorSpec, pub(crate) Born);

handles! {
    TensorSpec, 1;
}

/// Creates a description of tensors with a type and dimensions; -1 is an open dimension. A scalar
/// has rank 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_create(
    dtype: DTypeCode,
    dims: Dims,
    rank: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let out = need(out, "out")?;
        let (dtype, dims) = (self::dtype(dtype)?, dims.get(rank, "dims")?);
        hand_out(out, TensorSpec(device::TensorSpec::from_dims(dtype, dims)?, Born::here()));
        Ok(())
    })
}

/// The extents of a shape, of which none is open.
pub(crate) fn extents(dims: &[i64]) -> Result<Vec<usize>> {
    let extent = |(axis, &dim): (usize, &i64)| {
        usize::try_from(dim).map_err(|_| {
            invalid(format!("dimension {axis} of a shape is {dim}; expected a number of elements"))
        })
    };
    dims.iter().enumerate().map(extent).collect()
}

/// Changes a description, unless it is refused.
fn change(
    spec: Option<&mut TensorSpec>,
    how: impl FnOnce(device::TensorSpec) -> Result<device::TensorSpec>,
) -> Option<Box<Error>> {
    guard(|| {
        let spec = live(spec, "spec")?;
        spec.0 = how(spec.0)?;
        Ok(())
    })
}

/// Sets the order of four dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_set_layout(
    spec: Option<&mut TensorSpec>,
    layout: LayoutCode,
) -> Option<Box<Error>> {
    change(spec, |spec| spec.with_layout(self::layout(layout)?))
}

/// Sets how batches, the first dimension, are packed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_set_packing(
    spec: Option<&mut TensorSpec>,
    packing: PackingCode,
) -> Option<Box<Error>> {
    change(spec, |spec| spec.with_packing(self::packing(packing)?))
}

/// Sets the encoding of integers: `real = scale * (q - zero_point)`. With `axis` -1, one scale and
/// zero point apply to all elements; otherwise there is one pair for each position of the axis.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_set_quantization(
    spec: Option<&mut TensorSpec>,
    scales: Scales,
    zero_points: ZeroPoints,
    count: usize,
    axis: i32,
) -> Option<Box<Error>> {
    change(spec, |spec| {
        let scales = scales.get(count, "scales")?;
        let zero_points = zero_points.get(count, "zero_points")?;
        spec.with_encodings(encodings(scales, zero_points, axis)?)
    })
}

pub(crate) fn encodings(scales: &[f32], zero_points: &[i32], axis: i32) -> Result<Encodings> {
    if let (-1, [scale], [zero_point]) = (axis, scales, zero_points) {
        return Ok(Encodings::PerTensor(Encoding { scale: *scale, zero_point: *zero_point }));
    }
    let axis = usize::try_from(axis).map_err(|_| {
        let count = scales.len();
        invalid(format!(
            "axis is {axis} with {count} scales; expected -1 and one scale, or a dimension's number"
        ))
    })?;
    let made = AxisEncoding::intern(axis, scales, zero_points);
    made.map(Encodings::PerAxis).map_err(|error| invalid(error.to_string()))
}

/// An encoding of integers: `real = scale * (q - zero_point)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodingOf {
    /// The difference that a step of one represents.
    pub scale: f32,
    /// The integer that represents 0.
    pub zero_point: i32,
}

/// The scales and zero points of a description, and the axis of which each is a position's; -1 where there is one.
fn encodings_of(spec: &device::TensorSpec) -> (Vec<EncodingOf>, i32) {
    match spec.encodings() {
        None => (Vec::new(), -1),
        Some(Encodings::PerTensor(of)) => {
            (vec![EncodingOf { scale: of.scale, zero_point: of.zero_point }], -1)
        }
        Some(Encodings::PerAxis(of)) => {
            let each = of.scales().iter().zip(of.zero_points());
            let each = each.map(|(&scale, &zero_point)| EncodingOf { scale, zero_point });
            (each.collect(), i32::try_from(of.axis()).unwrap_or(i32::MAX))
        }
    }
}

/// Returns the number of encodings of a description; 0 for elements without an encoding.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_encoding_count(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        out.write(encodings_of(&spec.0).0.len());
        Ok(())
    })
}

/// Returns the axis of the encodings; -1 if there is one for all elements, or none.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_encoding_axis(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<i32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        out.write(encodings_of(&spec.0).1);
        Ok(())
    })
}

/// Returns an encoding of a description.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_encoding(
    spec: Option<&TensorSpec>,
    index: usize,
    out: Option<&mut MaybeUninit<EncodingOf>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        out.write(*place(&encodings_of(&spec.0).0, "encoding", index)?);
        Ok(())
    })
}

/// Returns the type of the elements.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_dtype(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<DTypeCode>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        out.write(dtype_code(spec.0.dtype()));
        Ok(())
    })
}

/// Returns the number of dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_rank(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        out.write(spec.0.rank());
        Ok(())
    })
}

/// Writes the dimensions to an array of `capacity` elements; -1 is a dimension that is not fixed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_dims(
    spec: Option<&TensorSpec>,
    mut dims: DimsMut,
    capacity: usize,
) -> Option<Box<Error>> {
    guard(|| {
        let spec = live(spec, "spec")?;
        if dims.is_null() {
            return need(None, "dims");
        }
        let rank = spec.0.rank();
        if capacity < rank {
            return Err(invalid(format!(
                "there is room for {capacity} dimensions of {}; expected {rank}",
                spec.0
            )));
        }
        for (place, extent) in dims.get(rank, "dims")?.iter_mut().zip(spec.0.extents()) {
            *place = match extent {
                Extent::Fixed(n) => i64::try_from(n).unwrap_or(i64::MAX),
                Extent::Range { .. } | Extent::Open => -1,
            };
        }
        Ok(())
    })
}

/// A number of a description that may leave it open.
fn count(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<u64>>,
    of: impl FnOnce(&device::TensorSpec) -> Result<u64>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        out.write(of(&spec.0)?);
        Ok(())
    })
}

/// Returns the number of elements; 1 for a scalar. An open dimension is refused with
/// `UDO_ERROR_DYNAMIC_SHAPE`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_elements(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<Error>> {
    count(spec, out, device::TensorSpec::element_count)
}

/// Returns the size of the elements in bytes. An open dimension is refused with
/// `UDO_ERROR_DYNAMIC_SHAPE`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_byte_size(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<Error>> {
    count(spec, out, device::TensorSpec::byte_size)
}

/// Returns the bytes that a tensor takes in memory, including the padding of its last group of
/// batches. An open dimension is refused with `UDO_ERROR_DYNAMIC_SHAPE`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_storage_size(
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<Error>> {
    count(spec, out, device::TensorSpec::storage_size)
}

/// The range of sizes of a dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The minimum.
    pub least: u64,
    /// The maximum; the largest value of the type if the dimension is unbounded.
    pub most: u64,
}

/// Returns the range of sizes of a dimension; both ends are equal if it is fixed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_range(
    spec: Option<&TensorSpec>,
    index: usize,
    out: Option<&mut MaybeUninit<Range>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, out) = (live(spec, "spec")?, need(out, "out")?);
        let extent = spec.0.extent(index).ok_or_else(|| {
            let rank = spec.0.rank();
            invalid(format!("no dimension {index}; expected an index below {rank}"))
        })?;
        let bound = |extent: usize| u64::try_from(extent).unwrap_or(u64::MAX);
        out.write(match extent {
            Extent::Fixed(n) => Range { least: bound(n), most: bound(n) },
            Extent::Range { min, max } => Range { least: bound(min), most: bound(max) },
            Extent::Open => Range { least: 0, most: u64::MAX },
        });
        Ok(())
    })
}

/// Releases a description. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec_release(spec: Option<Box<TensorSpec>>) {
    release(spec);
}
