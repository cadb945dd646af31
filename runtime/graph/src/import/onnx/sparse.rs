//! Converts sparse tensors to dense ones.

use std::fmt::Arguments;

use udo_api::Shape;
use udo_host::Buffer;

use super::ImportError;
use super::external::Files;
use super::proto::SparseTensorProto;
use super::raw::size_error;
use super::tensor::{shape, tensor};
use crate::memory::{Tensor, TensorError, TensorStorage};

/// Converts a sparse tensor to a dense one. `files` has the external data.
///
/// The index of an element is a linear index or one coordinate per dimension; ONNX requires ascending order.
pub(super) fn dense(
    place: Arguments<'_>,
    proto: &SparseTensorProto,
    files: &Files<'_>,
) -> Result<Tensor, ImportError> {
    let missing = |what: &str| ImportError::malformed(place, format!("no {what}"), "a tensor");
    let values = proto.values.as_ref().ok_or_else(|| missing("values"))?;
    let indices = proto.indices.as_ref().ok_or_else(|| missing("indices"))?;
    let values = tensor(format_args!("{place} values"), values, files)?;
    let indices = tensor(format_args!("{place} indices"), indices, files)?;
    let shape = shape(place, &proto.dims)?;
    let positions = linear_indices(place, &indices, (&values, &shape))?;
    let dtype = values.dtype();
    let bytes = dtype.size_bytes();
    let memory = |error| size_error(place, &TensorError::Memory(error));
    let mut buffer = Buffer::zeroed(shape.len().saturating_mul(bytes)).map_err(memory)?;
    for (position, value) in positions.into_iter().zip(values.bytes().chunks_exact(bytes)) {
        let start = position.saturating_mul(bytes);
        let slot = buffer.bytes_mut().get_mut(start..start.saturating_add(bytes));
        if let Some(slot) = slot {
            slot.copy_from_slice(value);
        }
    }
    let tensor = Tensor::from_buffer(dtype, shape, buffer);
    tensor.map_err(|error| size_error(place, &error.into()))
}

/// Returns the linear index of each value, in ascending order.
fn linear_indices(
    place: Arguments<'_>,
    indices: &Tensor,
    (values, shape): (&Tensor, &Shape),
) -> Result<Vec<usize>, ImportError> {
    let count = values.dims().iter().product::<usize>();
    let rank = shape.dims().len();
    let extents: Vec<usize> = match indices.dims() {
        [found] if *found == count => vec![shape.len()],
        [found, coordinates] if (*found, *coordinates) == (count, rank) => shape.dims().to_vec(),
        found => {
            let found = format!("indices of shape {found:?} for {count} values");
            let expected = format!("[{count}] or [{count}, {rank}]");
            return Err(ImportError::malformed(place, found, expected));
        }
    };
    let Some(indices) = indices.get::<i64>().filter(|_| values.dims().len() == 1) else {
        let found = format!("values {} and indices {}", values.desc(), indices.desc());
        return Err(ImportError::malformed(place, found, "values of rank 1 and i64 indices"));
    };
    let mut positions: Vec<usize> = Vec::with_capacity(count);
    for coordinates in indices.chunks_exact(extents.len().max(1)) {
        let add_axis = |position: Option<usize>, (&coordinate, &extent): (&i64, &usize)| {
            let valid = usize::try_from(coordinate).ok().filter(|&valid| valid < extent);
            Some(position?.saturating_mul(extent).saturating_add(valid?))
        };
        let Some(position) = coordinates.iter().zip(&extents).fold(Some(0), add_axis) else {
            let found = format!("index {coordinates:?}");
            let expected = format!("an index within {shape}");
            return Err(ImportError::malformed(place, found, expected));
        };
        if positions.last().is_some_and(|previous| *previous >= position) {
            let found = format!("index {coordinates:?} out of order");
            return Err(ImportError::malformed(place, found, "ascending indices"));
        }
        positions.push(position);
    }
    Ok(positions)
}
