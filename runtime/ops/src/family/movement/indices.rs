//! Inputs that say which positions of an axis are meant.

use udo_api::{DType, ExecError, Inputs, Status, resolve_axis};

/// Indices of either type.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> Indices<'a> {
    /// Those of input `port`.
    pub(crate) fn get(inputs: &Inputs<'a>, port: usize) -> Result<Self, ExecError> {
        match inputs.dtype(port)? {
            DType::I32 => inputs.get(port).map(Self::I32),
            DType::I64 => inputs.get(port).map(Self::I64),
            _ => Err(ExecError::of(Status::BAD_CALL)),
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Index `at` as it is.
    #[inline]
    pub(crate) fn value(self, at: usize) -> i64 {
        match self {
            Self::I32(values) => i64::from(values[at]),
            Self::I64(values) => values[at],
        }
    }

    /// The position, among `extent`, that index `at` means: a negative one counts from the end.
    #[inline]
    pub(crate) fn position(self, at: usize, extent: usize) -> Result<usize, ExecError> {
        position(self.value(at), at, extent)
    }
}

/// The position, among `extent`, that `index` means, which is the one at `at`: a negative one counts from the end.
#[inline]
pub(crate) fn position(index: i64, at: usize, extent: usize) -> Result<usize, ExecError> {
    match usize::try_from(index) {
        Ok(index) if index < extent => Ok(index),
        _ => resolve_axis(index, extent).ok_or(ExecError::bad_value(index, at)),
    }
}
