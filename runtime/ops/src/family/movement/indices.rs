//! Inputs that hold indices along an axis.

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

    /// Returns index `at` as stored.
    #[inline]
    pub(crate) fn value(self, at: usize) -> i64 {
        match self {
            Self::I32(values) => i64::from(values[at]),
            Self::I64(values) => values[at],
        }
    }

    /// Returns the position in `0..extent` of index `at`; negative indices count from the end.
    #[inline]
    pub(crate) fn position(self, at: usize, extent: usize) -> Result<usize, ExecError> {
        position(self.value(at), at, extent)
    }
}

/// Returns the position in `0..extent` of `index`, which is number `at`; negative indices count from the end.
#[inline]
pub(crate) fn position(index: i64, at: usize, extent: usize) -> Result<usize, ExecError> {
    match usize::try_from(index) {
        Ok(index) if index < extent => Ok(index),
        _ => resolve_axis(index, extent).ok_or(ExecError::bad_value(index, at)),
    }
}
