//! Walks over tensors whose elements lie at strides.

use udo_api::MAX_RANK;

/// A number per axis.
pub(crate) type Axes = [usize; MAX_RANK];

/// The offsets of every position of a box of `rank` extents, for `N` tensors at once, last axis fastest.
#[derive(Clone, Debug)]
pub(crate) struct Walk<const N: usize> {
    rank: usize,
    dims: Axes,
    strides: [Axes; N],
    at: Axes,
    offsets: [usize; N],
    left: usize,
}

impl<const N: usize> Walk<N> {
    pub(crate) fn new(dims: &[usize], strides: [Axes; N]) -> Self {
        let mut own = [1; MAX_RANK];
        for (to, from) in own.iter_mut().zip(dims) {
            *to = *from;
        }
        let rank = dims.len().min(MAX_RANK);
        let left = dims.iter().product();
        Self { rank, dims: own, strides, at: [0; MAX_RANK], offsets: [0; N], left }
    }
}

impl<const N: usize> Iterator for Walk<N> {
    type Item = [usize; N];

    #[inline]
    fn next(&mut self) -> Option<[usize; N]> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let found = self.offsets;
        for axis in (0..self.rank).rev() {
            self.at[axis] += 1;
            let wraps = self.at[axis] == self.dims[axis];
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                // Stepping back over the whole axis may pass below the start; the sum never does.
                let back = if wraps { strides[axis] * (self.dims[axis] - 1) } else { 0 };
                *offset = if wraps { *offset - back } else { *offset + strides[axis] };
            }
            if !wraps {
                break;
            }
            self.at[axis] = 0;
        }
        Some(found)
    }
}

/// A tensor around one axis: elements before it, along it, and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) outer: usize,
    pub(crate) len: usize,
    pub(crate) inner: usize,
}

impl Around {
    /// The axis must be one of `dims`; beyond them it has one element.
    pub(crate) fn axis(dims: &[usize], axis: usize) -> Self {
        let axis = axis.min(dims.len());
        let (before, rest) = dims.split_at(axis);
        let (len, after) = rest.split_first().map_or((1, rest), |(len, after)| (*len, after));
        Self { outer: before.iter().product(), len, inner: after.iter().product() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_visit_every_position_in_order() {
        let dims = [2, 3];
        let (dense, transposed) = ([3, 1, 0, 0, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0]);
        let seen: Vec<_> = Walk::new(&dims, [dense, transposed]).collect();
        assert_eq!(seen, [[0, 0], [1, 2], [2, 4], [3, 1], [4, 3], [5, 5]]);
        assert_eq!(Walk::<1>::new(&[], [[0; 8]]).count(), 1, "a scalar has one position");
        assert_eq!(Walk::<1>::new(&[3, 0], [[0; 8]]).count(), 0);
    }

    #[test]
    fn axes_split_a_shape() {
        assert_eq!(Around::axis(&[2, 3, 4], 1), Around { outer: 2, len: 3, inner: 4 });
        assert_eq!(Around::axis(&[5], 0), Around { outer: 1, len: 5, inner: 1 });
    }
}
