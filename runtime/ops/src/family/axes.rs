//! Axes of tensors: resolving them, strided iteration, and the split around one axis.

use udo_api::{MAX_RANK, resolve_axis};

/// One value per axis.
pub(crate) type Axes = [usize; MAX_RANK];

/// Yields the offsets of `N` strided tensors at every position of a box of `rank` extents, last axis fastest.
#[derive(Clone, Debug)]
pub(crate) struct StridedIter<const N: usize> {
    rank: usize,
    dims: Axes,
    strides: [Axes; N],
    /// Coordinates of the next position.
    position: Axes,
    offsets: [usize; N],
    /// Number of positions not yet yielded.
    remaining: usize,
}

impl<const N: usize> StridedIter<N> {
    pub(crate) fn new(dims: &[usize], strides: [Axes; N]) -> Self {
        let mut padded_dims = [1; MAX_RANK];
        for (padded, dim) in padded_dims.iter_mut().zip(dims) {
            *padded = *dim;
        }
        let rank = dims.len().min(MAX_RANK);
        let remaining = dims.iter().product();
        Self {
            rank,
            dims: padded_dims,
            strides,
            position: [0; MAX_RANK],
            offsets: [0; N],
            remaining,
        }
    }
}

impl<const N: usize> Iterator for StridedIter<N> {
    type Item = [usize; N];

    #[inline]
    fn next(&mut self) -> Option<[usize; N]> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let current = self.offsets;
        for axis in (0..self.rank).rev() {
            self.position[axis] += 1;
            let wraps = self.position[axis] == self.dims[axis];
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                // Offsets are unsigned: an axis that wraps goes back to its start in one step, and only by what it
                // has advanced.
                let back = if wraps { strides[axis] * (self.dims[axis] - 1) } else { 0 };
                *offset = if wraps { *offset - back } else { *offset + strides[axis] };
            }
            if !wraps {
                break;
            }
            self.position[axis] = 0;
        }
        Some(current)
    }
}

/// Returns the strides of a dense tensor.
pub(crate) fn strides(dims: &[usize]) -> Axes {
    let mut strides = [0; MAX_RANK];
    let mut stride = 1;
    for (axis, dim) in dims.iter().enumerate().rev() {
        strides[axis] = stride;
        stride *= dim;
    }
    strides
}

/// A tensor split at one axis: the product of extents before it, its extent, and the product after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisSplit {
    pub(crate) outer: usize,
    pub(crate) len: usize,
    pub(crate) inner: usize,
}

impl AxisSplit {
    /// Splits at `axis`, which has extent 1 if it is past the last axis.
    pub(crate) fn at(dims: &[usize], axis: usize) -> Self {
        let axis = axis.min(dims.len());
        let (outer, from_axis) = dims.split_at(axis);
        let (len, inner) =
            from_axis.split_first().map_or((1, from_axis), |(len, inner)| (*len, inner));
        Self { outer: outer.iter().product(), len, inner: inner.iter().product() }
    }
}

/// Resolves axes in a tensor of rank `rank`; `None` if one does not exist or occurs twice.
pub(crate) fn resolve_axes(requested: &[i64], rank: usize) -> Option<Vec<usize>> {
    let mut resolved = Vec::with_capacity(requested.len());
    for &axis in requested {
        let axis = resolve_axis(axis, rank).filter(|axis| !resolved.contains(axis))?;
        resolved.push(axis);
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_positions_come_in_order() {
        let dims = [2, 3];
        let (dense, transposed) = ([3, 1, 0, 0, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0]);
        let seen: Vec<_> = StridedIter::new(&dims, [dense, transposed]).collect();
        assert_eq!(seen, [[0, 0], [1, 2], [2, 4], [3, 1], [4, 3], [5, 5]]);
        assert_eq!(StridedIter::<1>::new(&[], [[0; 8]]).count(), 1, "a scalar has one position");
        assert_eq!(StridedIter::<1>::new(&[3, 0], [[0; 8]]).count(), 0);
    }

    #[test]
    fn axes_split_a_shape() {
        assert_eq!(AxisSplit::at(&[2, 3, 4], 1), AxisSplit { outer: 2, len: 3, inner: 4 });
        assert_eq!(AxisSplit::at(&[5], 0), AxisSplit { outer: 1, len: 5, inner: 1 });
    }

    #[test]
    fn missing_and_repeated_axes_are_refused() {
        assert_eq!(resolve_axes(&[-1, 0], 3), Some(vec![2, 0]));
        for axes in [[0, 0], [0, -3], [3, 0], [-4, 0], [i64::MIN, 0], [i64::MAX, 0]] {
            assert_eq!(resolve_axes(&axes, 3), None, "{axes:?}");
        }
    }
}
