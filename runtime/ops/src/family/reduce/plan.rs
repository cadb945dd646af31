//! Which elements become one.

use udo_api::MAX_RANK;

use super::accumulate::Accumulate;
use crate::family::axes::{Axes, AxisSplit};
use crate::family::partition::GRAIN;
use crate::number::Number;

/// Columns that a thread takes at least, so that it reads whole lines of memory.
const COLUMNS: usize = 256;

/// A type whose rows and columns become numbers.
pub(super) trait Lane: Number {
    /// Every row of `x: [y.len(), cols]` becomes a number of `y`.
    fn rows<A: Accumulate>(x: &[Self], cols: usize, y: &mut [Self]);

    /// Every column of `x: [_, y.len()]` is taken into a number of `y`.
    fn columns<A: Accumulate>(x: &[Self], y: &mut [Self]);
}

/// Places along some axes, innermost first.
#[derive(Clone, Copy, Debug)]
struct Grid {
    rank: usize,
    dims: Axes,
    strides: Axes,
}

impl Grid {
    const POINT: Self = Self { rank: 0, dims: [1; MAX_RANK], strides: [0; MAX_RANK] };

    fn push(&mut self, dim: usize, stride: usize) {
        (self.dims[self.rank], self.strides[self.rank]) = (dim, stride);
        self.rank += 1;
    }

    fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Where place `index` of its `len` lies.
    fn at(&self, mut index: usize) -> usize {
        let mut at = 0;
        for (dim, stride) in self.dims.iter().zip(&self.strides).take(self.rank) {
            at += index % dim * stride;
            index /= dim;
        }
        at
    }
}

/// Which elements of a tensor become one, with neighbouring axes merged.
///
/// They lie in blocks: rows that become a number each, or rows whose columns do. A number may take several blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The extents of the result.
    dims: Axes,
    rank: usize,
    /// Elements of a block.
    block: usize,
    /// Columns of a block; a row has one.
    width: usize,
    /// Where the first blocks lie, of `width` results each.
    kept: Grid,
    /// Where the blocks that go into the same results lie.
    reduced: Grid,
}

/// Whether the axes that are reduced stay, with one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduced {
    Stay,
    Go,
}

impl Plan {
    /// A tensor of these extents, of which the axes whose bits are in `mask` are reduced.
    pub(super) fn of(dims: &[usize], mask: u32, axes: Reduced) -> Self {
        let mut plan = Self {
            dims: [1; MAX_RANK],
            rank: 0,
            block: 1,
            width: 1,
            kept: Grid::POINT,
            reduced: Grid::POINT,
        };
        for (axis, &dim) in dims.iter().enumerate().take(MAX_RANK) {
            let is_reduced = mask >> axis & 1 == 1;
            if !is_reduced || axes == Reduced::Stay {
                plan.dims[plan.rank] = if is_reduced { 1 } else { dim };
                plan.rank += 1;
            }
        }
        // Merged axes, innermost first.
        let (mut merged, mut count) = ([(1, false); MAX_RANK], 0usize);
        for (axis, &dim) in dims.iter().enumerate().take(MAX_RANK).rev().filter(|(_, d)| **d != 1) {
            let is_reduced = mask >> axis & 1 == 1;
            match count.checked_sub(1).map(|last| &mut merged[last]) {
                Some((len, kind)) if *kind == is_reduced => *len *= dim,
                _ => {
                    merged[count] = (dim, is_reduced);
                    count += 1;
                }
            }
        }
        plan.lay(&merged[..count]);
        plan
    }

    fn lay(&mut self, merged: &[(usize, bool)]) {
        let outer = match *merged {
            [(len, true), ref outer @ ..] => {
                self.block = len;
                outer
            }
            [(width, false), (rows, _), ref outer @ ..] => {
                (self.width, self.block) = (width, rows * width);
                outer
            }
            [(width, false)] => {
                (self.width, self.block) = (width, width);
                &[]
            }
            [] => &[],
        };
        let mut stride = self.block;
        for &(dim, is_reduced) in outer {
            let grid = if is_reduced { &mut self.reduced } else { &mut self.kept };
            grid.push(dim, stride);
            stride *= dim;
        }
    }

    /// The extents of the result.
    pub(super) fn shape(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Elements of the result.
    pub(super) fn len(&self) -> usize {
        self.kept.len() * self.width
    }

    /// Elements that become one.
    pub(super) fn count(&self) -> usize {
        self.block / self.width.max(1) * self.reduced.len()
    }

    /// Elements of the result that a thread takes at a time.
    pub(super) fn grain(&self) -> usize {
        let least = if self.width < COLUMNS { self.width } else { COLUMNS };
        let grain = GRAIN.div_ceil(self.count().max(1)).max(least).max(1);
        if grain < self.width { grain } else { grain.next_multiple_of(self.width.max(1)) }
    }

    /// The one run of axes that are reduced, if there is no other.
    pub(super) fn axis_split(&self) -> Option<AxisSplit> {
        let is_one = self.reduced.rank == 0 && self.kept.rank <= 1;
        is_one.then(|| AxisSplit { outer: self.kept.len(), len: self.count(), inner: self.width })
    }

    /// Where the elements lie that become element `place` of the result.
    pub(super) fn elements(&self, place: usize) -> impl Iterator<Item = usize> {
        let first = self.kept.at(place / self.width) + place % self.width;
        (0..self.reduced.len()).flat_map(move |index| {
            let first = first + self.reduced.at(index);
            (first..first + self.block).step_by(self.width)
        })
    }

    /// Writes the elements of the result from `first` on to `y`.
    pub(super) fn fold<A: Accumulate, T: Lane>(&self, x: &[T], first: usize, y: &mut [T]) {
        if self.width == 1 && self.axis_split().is_some() {
            return T::rows::<A>(&x[first * self.block..][..y.len() * self.block], self.block, y);
        }
        let (mut place, mut left) = (first, y);
        while !left.is_empty() {
            let column = place % self.width;
            let len = left.len().min(self.width - column);
            let (part, behind) = left.split_at_mut(len);
            part.fill(A::none());
            let at = self.kept.at(place / self.width);
            for index in 0..self.reduced.len() {
                let block = &x[at + self.reduced.at(index)..][..self.block];
                self.fold_block::<A, T>(block, column, part);
            }
            (place, left) = (place + len, behind);
        }
    }

    /// Takes the columns of a block from `column` on into `y`, or its only row.
    fn fold_block<A: Accumulate, T: Lane>(&self, block: &[T], column: usize, y: &mut [T]) {
        if self.width == 1 {
            let mut row = [A::none()];
            T::rows::<A>(block, self.block, &mut row);
            y[0] = A::merge(y[0], row[0]);
        } else if y.len() == self.width {
            T::columns::<A>(block, y);
        } else {
            for row in block.chunks_exact(self.width) {
                T::columns::<A>(&row[column..][..y.len()], y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of each place of the result, and its extents.
    fn laid(dims: &[usize], mask: u32) -> (Vec<Vec<usize>>, Vec<usize>) {
        let plan = Plan::of(dims, mask, Reduced::Go);
        let places = (0..plan.len()).map(|place| plan.elements(place).collect()).collect();
        (places, plan.shape().to_vec())
    }

    #[test]
    fn every_element_is_in_the_place_of_its_kept_axes() {
        assert_eq!(laid(&[2, 3], 0b10), (vec![vec![0, 1, 2], vec![3, 4, 5]], vec![2]));
        assert_eq!(laid(&[2, 3], 0b01), (vec![vec![0, 3], vec![1, 4], vec![2, 5]], vec![3]));
        assert_eq!(laid(&[2, 1, 2], 0b101), (vec![vec![0, 1, 2, 3]], vec![1]));
        let both = vec![vec![0, 1, 4, 5], vec![2, 3, 6, 7]];
        assert_eq!(laid(&[2, 2, 2], 0b101), (both, vec![2]));
        let middle = vec![vec![0, 2], vec![1, 3], vec![4, 6], vec![5, 7]];
        assert_eq!(laid(&[2, 2, 2], 0b010), (middle, vec![2, 2]));
        assert_eq!(laid(&[3], 0), (vec![vec![0], vec![1], vec![2]], vec![3]));
        assert_eq!(laid(&[], 0), (vec![vec![0]], vec![]));
    }

    #[test]
    fn nothing_is_reduced_to_something_or_to_nothing() {
        assert_eq!(laid(&[2, 0, 4], 0b010), (vec![vec![]; 8], vec![2, 4]));
        assert_eq!(laid(&[2, 0, 4], 0b100), (vec![], vec![2, 0]));
        assert_eq!(laid(&[0], 0b1), (vec![vec![]], vec![]));
        assert_eq!(Plan::of(&[2, 0], 0b11, Reduced::Stay).shape(), [1, 1]);
    }

    #[test]
    fn threads_take_whole_groups_or_many_columns() {
        assert_eq!(Plan::of(&[1 << 20, 8], 0b10, Reduced::Go).grain(), GRAIN / 8);
        assert_eq!(Plan::of(&[1000, 3, 7], 0b010, Reduced::Go).grain() % 7, 0);
        assert_eq!(Plan::of(&[1 << 20, 4000], 0b01, Reduced::Go).grain(), COLUMNS);
        assert_eq!(Plan::of(&[3, 0], 0b01, Reduced::Go).grain(), GRAIN);
    }
}
