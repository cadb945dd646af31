//! Tensors from raw bytes, and errors about their sizes.

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
    // Normalized: every non-zero byte becomes 1.
    let made = if dtype == DType::Bool {
        Tensor::from_slice(shape, &raw.iter().map(|&b| Bool::from(b != 0)).collect::<Vec<_>>())
    } else {
        Tensor::from_bytes(dtype, shape, raw)
    };
    made.map_err(|e| size_error(place, &e))
}

/// Converts a tensor error to an import error.
pub(super) fn size_error(place: Arguments<'_>, error: &TensorError) -> ImportError {
    let TensorError::Size(SizeError { found, wanted: expected, dtype, shape }) = error else {
        return ImportError::malformed(place, error, "less");
    };
    ImportError::malformed(
        place,
        format!("{found} bytes"),
        format!("{expected} for {dtype}{shape}"),
    )
}
