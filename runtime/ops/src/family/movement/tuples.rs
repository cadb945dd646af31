//! Inputs of `GatherND` and `ScatterND`, whose last axis holds tuples of indices. Each tuple selects a slice of the data.

use udo_api::{ExecError, MAX_RANK};

use super::Indices;

/// The slices selected by tuples of indices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuples {
    /// Indices per tuple.
    pub(crate) depth: usize,
    /// Number of tuples.
    pub(crate) count: usize,
    /// Elements per slice.
    pub(crate) inner: usize,
    /// Tuples per batch, and elements per batch.
    batch: [usize; 2],
    /// Extents of the data along the indexed axes.
    extents: [usize; MAX_RANK],
}

impl Tuples {
    /// Computes the slices of a tensor of extents `data`. Its first `batch_dims` axes are those of `indices`.
    pub(crate) fn new(data: &[usize], indices: &[usize], batch_dims: usize) -> Self {
        let (depth, outer) =
            indices.split_last().map_or((0, indices), |(last, rest)| (*last, rest));
        let (indexed, inner_extents) = data.split_at((batch_dims + depth).min(data.len()));
        let indexed_unbatched = &indexed[batch_dims.min(indexed.len())..];
        let mut extents = [1; MAX_RANK];
        extents.iter_mut().zip(indexed_unbatched).for_each(|(to, &extent)| *to = extent);
        let inner = inner_extents.iter().product();
        let tuples = outer[batch_dims.min(outer.len())..].iter().product();
        let batch = [tuples, indexed_unbatched.iter().product::<usize>() * inner];
        Self {
            depth: indexed_unbatched.len(),
            count: outer.iter().product(),
            inner,
            batch,
            extents,
        }
    }

    /// Returns the first element of the slice of tuple `tuple`.
    #[inline]
    pub(crate) fn slice(&self, indices: Indices<'_>, tuple: usize) -> Result<usize, ExecError> {
        let mut slice = 0;
        for (axis, &extent) in self.extents[..self.depth].iter().enumerate() {
            slice = slice * extent + indices.position(tuple * self.depth + axis, extent)?;
        }
        let [tuples, elements] = self.batch;
        let batch = if tuples == self.count { 0 } else { tuple / tuples };
        Ok(batch * elements + slice * self.inner)
    }
}
