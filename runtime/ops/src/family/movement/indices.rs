//! Inputs that hold indices along an axis, such as those of Gather.

use udo_api::{DType, ExecError, Inputs, Status, resolve_axis};

/// Indices of type i32 or i64.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> Indices<'a> {
    /// Reads the indices of input `port`.
    pub(crate) fn get(inputs: &Inputs<'a>, port: usize) -> Result<Self, ExecError> {
        match inputs.dtype(port)? {
            DType::I32 => inputs.get(port).map(Self::I32),
            DType::I64 => inputs.get(port).map(Self::I64),
            _ => Err(ExecError::new(Status::BAD_CALL)),
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Returns index `number` as stored, which may be negative or out of bounds.
    #[inline]
    pub(crate) fn value(self, number: usize) -> i64 {
        match self {
            Self::I32(values) => i64::from(values[number]),
            Self::I64(values) => values[number],
        }
    }

    /// Resolves index `number` to a position in `0..extent`; negative indices count from the end.
    #[inline]
    pub(crate) fn position(self, number: usize, extent: usize) -> Result<usize, ExecError> {
        position(self.value(number), number, extent)
    }
}

/// Resolves `index` to a position in `0..extent`; negative indices count from the end. An error names the index by
/// `number`, its place among the indices.
#[inline]
pub(crate) fn position(index: i64, number: usize, extent: usize) -> Result<usize, ExecError> {
    match usize::try_from(index) {
        Ok(index) if index < extent => Ok(index),
        _ => resolve_axis(index, extent).ok_or(ExecError::bad_value(index, number)),
    }
}
