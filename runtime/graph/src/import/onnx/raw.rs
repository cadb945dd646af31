//! Tensors of their elements' bytes, and what is said where these are too few or too many.

use std::fmt::Arguments;

use udo_api::{Bool, DType, Shape};

use super::ImportError;
use crate::memory::{SizeError, Tensor, TensorError};

/// The tensor of elements in the order of this machine.
pub(super) fn from_raw(
    place: Arguments<'_>,
    dtype: DType,
    shape: Shape,
    raw: &[u8],
) -> Result<Tensor, ImportError> {
    // A byte of any value but 0 is true; here every true is 1.
    let made = if dtype == DType::Bool {
        Tensor::of(shape, &raw.iter().map(|&b| Bool::from(b != 0)).collect::<Vec<_>>())
    } else {
        Tensor::from_bytes(dtype, shape, raw)
    };
    made.map_err(|e| size_error(place, &e))
}

/// What is said of a tensor that cannot be made.
pub(super) fn size_error(place: Arguments<'_>, error: &TensorError) -> ImportError {
    let TensorError::Size(SizeError { found, wanted, dtype, shape }) = error else {
        return ImportError::malformed(place, error, "less");
    };
    ImportError::malformed(place, format!("{found} bytes"), format!("{wanted} for {dtype}{shape}"))
}
