//! Indices that replace the coordinate along one axis and keep the others.

use udo_api::{Error, ExecError, TensorDesc};

use super::Indices;
use crate::family::axes::{Axes, strides};

/// The tensor positions that indices refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Along {
    /// Indices along the last axis.
    pub(crate) row: usize,
    /// Number of rows of indices.
    pub(crate) rows: usize,
    /// Number of axes before the last.
    rank: usize,
    dims: Axes,
    /// Strides of the tensor; 0 along the indexed axis.
    strides: Axes,
    last_stride: usize,
    extent: usize,
    stride: usize,
}

impl Along {
    /// Computes the positions along `axis` of a tensor of extents `data` for indices of extents `indices`.
    pub(crate) fn new(axis: usize, data: &[usize], indices: &[usize]) -> Result<Self, ExecError> {
        for (at, (&requested, &extent)) in indices.iter().zip(data).enumerate() {
            if at != axis && requested > extent {
                return Err(ExecError::bad_value(requested as i64, at));
            }
        }
        let mut steps = strides(data);
        let stride = std::mem::replace(&mut steps[axis], 0);
        let (&row, outer) = indices.split_last().unwrap_or((&1, &[]));
        let mut dims = [1; udo_api::MAX_RANK];
        dims.iter_mut().zip(outer).for_each(|(to, &extent)| *to = extent);
        Ok(Self {
            row,
            rows: outer.iter().product(),
            rank: outer.len(),
            dims,
            strides: steps,
            last_stride: steps[outer.len()],
            extent: data.get(axis).copied().unwrap_or(1),
            stride,
        })
    }

    /// Returns the tensor elements that the indices of row `row` refer to.
    #[inline]
    pub(crate) fn places<'a>(
        &'a self,
        indices: Indices<'a>,
        row: usize,
    ) -> impl Iterator<Item = Result<usize, ExecError>> + 'a {
        let (mut left, mut first) = (row, 0);
        for axis in (0..self.rank).rev() {
            first += left % self.dims[axis] * self.strides[axis];
            left /= self.dims[axis];
        }
        (0..self.row).map(move |at| {
            let position = indices.position(row * self.row + at, self.extent)?;
            Ok(first + at * self.last_stride + position * self.stride)
        })
    }
}

/// Checks that the indices fit a tensor like `data`.
pub(crate) fn check_along(
    axis: usize,
    data: &TensorDesc,
    indices: &TensorDesc,
) -> Result<(), Error> {
    let mut extents = indices.shape().iter().zip(data.shape()).enumerate();
    let fits =
        |(at, (requested, extent)): (usize, (&usize, &usize))| at == axis || requested <= extent;
    if indices.rank() == data.rank() && extents.all(fits) {
        return Ok(());
    }
    let expected = format!("no more of any axis than {data} but for axis {axis}");
    Err(Error::new(format!("input 1 is {indices}, expected {expected}")))
}
