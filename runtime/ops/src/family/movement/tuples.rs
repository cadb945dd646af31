//! Inputs whose last axis is tuples of indices, each of a slice.

use udo_api::{ExecError, MAX_RANK};

use super::Indices;

/// Which slices tuples of indices mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuples {
    /// Indices of a tuple.
    pub(crate) depth: usize,
    /// How many tuples there are.
    pub(crate) count: usize,
    /// Elements of a slice.
    pub(crate) inner: usize,
    /// Tuples that mean slices of one batch, and its elements.
    batch: [usize; 2],
    extents: [usize; MAX_RANK],
}

impl Tuples {
    /// Slices of a tensor of extents `data`; the first `batch_dims` axes of it and of `indices` are the same.
    pub(crate) fn of(data: &[usize], indices: &[usize], batch_dims: usize) -> Self {
        let (depth, outer) =
            indices.split_last().map_or((0, indices), |(last, rest)| (*last, rest));
        let (taken, behind) = data.split_at((batch_dims + depth).min(data.len()));
        let own = &taken[batch_dims.min(taken.len())..];
        let mut extents = [1; MAX_RANK];
        extents.iter_mut().zip(own).for_each(|(to, &extent)| *to = extent);
        let inner = behind.iter().product();
        let tuples = outer[batch_dims.min(outer.len())..].iter().product();
        let batch = [tuples, own.iter().product::<usize>() * inner];
        Self { depth: own.len(), count: outer.iter().product(), inner, batch, extents }
    }

    /// The first element of the slice that tuple `at` means.
    #[inline]
    pub(crate) fn slice(&self, indices: Indices<'_>, at: usize) -> Result<usize, ExecError> {
        let mut slice = 0;
        for (axis, &extent) in self.extents[..self.depth].iter().enumerate() {
            slice = slice * extent + indices.position(at * self.depth + axis, extent)?;
        }
        let [tuples, elements] = self.batch;
        let batch = if tuples == self.count { 0 } else { at / tuples };
        Ok(batch * elements + slice * self.inner)
    }
}
