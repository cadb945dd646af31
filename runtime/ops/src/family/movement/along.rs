//! Indices as `GatherElements` and `ScatterElements` use them: an index replaces the coordinate along one axis, and its own
//! position gives the other coordinates.

use udo_api::{Error, ExecError, TensorDesc};

use super::Indices;
use crate::family::axes::{Axes, strides};

/// The tensor positions that indices refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Along {
    /// Number of indices in a row, along the last axis.
    pub(crate) row: usize,
    /// Number of rows of indices.
    pub(crate) rows: usize,
    /// Number of axes of the indices before the last.
    rank: usize,
    /// Extents of these axes.
    dims: Axes,
    /// Strides of the tensor; 0 along the indexed axis.
    strides: Axes,
    /// Stride of the tensor along the last axis; 0 if that is the indexed axis.
    last_stride: usize,
    /// Extent and stride of the tensor along the indexed axis.
    extent: usize,
    stride: usize,
}

impl Along {
    /// Plans the positions along `axis`, for a tensor of extents `data` and indices of extents `indices`.
    pub(crate) fn new(axis: usize, data: &[usize], indices: &[usize]) -> Result<Self, ExecError> {
        for (at, (&requested, &extent)) in indices.iter().zip(data).enumerate() {
            if at != axis && requested > extent {
                return Err(ExecError::bad_value(requested as i64, at));
            }
        }
        let mut outer_strides = strides(data);
        let stride = std::mem::replace(&mut outer_strides[axis], 0);
        let (&row, outer) = indices.split_last().unwrap_or((&1, &[]));
        let mut dims = [1; udo_api::MAX_RANK];
        dims.iter_mut().zip(outer).for_each(|(to, &extent)| *to = extent);
        Ok(Self {
            row,
            rows: outer.iter().product(),
            rank: outer.len(),
            dims,
            strides: outer_strides,
            last_stride: outer_strides[outer.len()],
            extent: data.get(axis).copied().unwrap_or(1),
            stride,
        })
    }

    /// Yields the offset of the tensor element that each index of row `row` refers to.
    #[inline]
    pub(crate) fn places<'a>(
        &'a self,
        indices: Indices<'a>,
        row: usize,
    ) -> impl Iterator<Item = Result<usize, ExecError>> + 'a {
        let (mut remaining, mut first) = (row, 0);
        for axis in (0..self.rank).rev() {
            first += remaining % self.dims[axis] * self.strides[axis];
            remaining /= self.dims[axis];
        }
        (0..self.row).map(move |index| {
            let position = indices.position(row * self.row + index, self.extent)?;
            Ok(first + index * self.last_stride + position * self.stride)
        })
    }
}

/// Checks that `indices` have the rank of `data`, and no larger extents except along `axis`.
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
