//! Tensors from raw bytes: the `raw_data` field of ONNX tensors and external data files.

use std::fmt::Arguments;

use udo_api::{Bool, DType, Shape};

use super::ImportError;
use crate::memory::{SizeError, Tensor, TensorError};

/// Creates a tensor from elements in native byte order.
pub(super) fn from_raw(
    place: Arguments<'_>,
    dtype: DType,
    shape: Shape,
    raw: &[u8],
) -> Result<Tensor, ImportError> {
    // A file may store any non-zero byte for true; kernels expect 1.
    let tensor = if dtype == DType::Bool {
        Tensor::from_slice(shape, &raw.iter().map(|&b| Bool::from(b != 0)).collect::<Vec<_>>())
    } else {
        Tensor::from_bytes(dtype, shape, raw)
    };
    tensor.map_err(|e| size_error(place, &e))
}

/// Converts a tensor error to an import error. Errors other than a wrong size mean that the tensor is too large.
pub(super) fn size_error(place: Arguments<'_>, error: &TensorError) -> ImportError {
    let TensorError::Size(SizeError { found, expected, dtype, shape }) = error else {
        return ImportError::malformed(place, error, "less");
    };
    ImportError::malformed(
        place,
        format!("{found} bytes"),
        format!("{expected} for {dtype}{shape}"),
    )
}
