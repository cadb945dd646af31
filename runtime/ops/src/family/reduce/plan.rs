//! Which input elements contribute to each output element.

use udo_api::MAX_RANK;

use super::accumulate::Accumulate;
use crate::family::axes::{Axes, AxisSplit};
use crate::family::partition::GRAIN;
use crate::number::Number;

/// The fewest columns per grain, so that a thread reads whole cache lines.
const COLUMNS: usize = 256;

/// A type with row and column reductions.
pub(super) trait Lane: Number {
    /// Reduces every row of `x: [y.len(), cols]` to an element of `y`.
    fn rows<A: Accumulate>(x: &[Self], cols: usize, y: &mut [Self]);

    /// Accumulates every column of `x: [_, y.len()]` into an element of `y`.
    fn columns<A: Accumulate>(x: &[Self], y: &mut [Self]);
}

/// Positions along some axes, innermost first.
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

    /// Returns the offset of position `index`.
    fn at(&self, mut index: usize) -> usize {
        let mut at = 0;
        for (dim, stride) in self.dims.iter().zip(&self.strides).take(self.rank) {
            at += index % dim * stride;
            index /= dim;
        }
        at
    }
}

/// The reduction of a tensor, with neighbouring axes merged.
///
/// Elements form blocks. A block is either one row, reduced to one element, or several rows whose columns are reduced.
/// An output element may take several blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The extents of the output.
    dims: Axes,
    rank: usize,
    /// Elements per block.
    block: usize,
    /// Columns per block; 1 for a row.
    width: usize,
    /// Offsets of the first blocks, each of `width` outputs.
    retained: Grid,
    /// Offsets of the blocks that contribute to the same outputs.
    reduced: Grid,
}

/// Whether the output has reduced axes: with extent 1 (`keepdims`), or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduced {
    Stay,
    Go,
}

impl Plan {
    /// Plans the reduction of a tensor of these extents along the axes in `mask`.
    pub(super) fn new(dims: &[usize], mask: u32, axes: Reduced) -> Self {
        let mut plan = Self {
            dims: [1; MAX_RANK],
            rank: 0,
            block: 1,
            width: 1,
            retained: Grid::POINT,
            reduced: Grid::POINT,
        };
        for (axis, &dim) in dims.iter().enumerate().take(MAX_RANK) {
            let is_reduced = mask >> axis & 1 == 1;
            if !is_reduced || axes == Reduced::Stay {
                plan.dims[plan.rank] = if is_reduced { 1 } else { dim };
                plan.rank += 1;
            }
        }
        // Extents of merged axes and whether they are reduced, innermost first. Neighbouring axes of the same kind
        // merge.
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
        plan.set_blocks(&merged[..count]);
        plan
    }

    /// Sets blocks and grids for the merged axes, innermost first.
    fn set_blocks(&mut self, merged: &[(usize, bool)]) {
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
            let grid = if is_reduced { &mut self.reduced } else { &mut self.retained };
            grid.push(dim, stride);
            stride *= dim;
        }
    }

    /// Returns the extents of the output.
    pub(super) fn shape(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Returns the elements of the output.
    pub(super) fn len(&self) -> usize {
        self.retained.len() * self.width
    }

    /// Returns the number of input elements per output element.
    pub(super) fn count(&self) -> usize {
        self.block / self.width.max(1) * self.reduced.len()
    }

    /// Returns the output elements per grain.
    pub(super) fn grain(&self) -> usize {
        let least = if self.width < COLUMNS { self.width } else { COLUMNS };
        let grain = GRAIN.div_ceil(self.count().max(1)).max(least).max(1);
        if grain < self.width { grain } else { grain.next_multiple_of(self.width.max(1)) }
    }

    /// Returns the reduced axis, if all reduced axes are adjacent.
    pub(super) fn axis_split(&self) -> Option<AxisSplit> {
        let is_one = self.reduced.rank == 0 && self.retained.rank <= 1;
        is_one.then(|| AxisSplit {
            outer: self.retained.len(),
            len: self.count(),
            inner: self.width,
        })
    }

    /// Returns the offsets of the elements that contribute to output `output`.
    pub(super) fn elements(&self, output: usize) -> impl Iterator<Item = usize> {
        let first = self.retained.at(output / self.width) + output % self.width;
        (0..self.reduced.len()).flat_map(move |index| {
            let first = first + self.reduced.at(index);
            (first..first + self.block).step_by(self.width)
        })
    }

    /// Computes the outputs from `first` on.
    pub(super) fn fold<A: Accumulate, T: Lane>(&self, x: &[T], first: usize, y: &mut [T]) {
        if self.width == 1 && self.axis_split().is_some() {
            return T::rows::<A>(&x[first * self.block..][..y.len() * self.block], self.block, y);
        }
        let (mut output, mut remaining) = (first, y);
        while !remaining.is_empty() {
            let column = output % self.width;
            let len = remaining.len().min(self.width - column);
            let (part, after) = remaining.split_at_mut(len);
            part.fill(A::none());
            let start = self.retained.at(output / self.width);
            for index in 0..self.reduced.len() {
                let block = &x[start + self.reduced.at(index)..][..self.block];
                self.fold_block::<A, T>(block, column, part);
            }
            (output, remaining) = (output + len, after);
        }
    }

    /// Accumulates the columns of a block from `column` on into `y`, or its only row.
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

    /// Returns the elements of each output position, and the output extents.
    fn planned_elements(dims: &[usize], mask: u32) -> (Vec<Vec<usize>>, Vec<usize>) {
        let plan = Plan::new(dims, mask, Reduced::Go);
        let places = (0..plan.len()).map(|output| plan.elements(output).collect()).collect();
        (places, plan.shape().to_vec())
    }

    #[test]
    fn every_element_is_reduced_to_its_output() {
        assert_eq!(planned_elements(&[2, 3], 0b10), (vec![vec![0, 1, 2], vec![3, 4, 5]], vec![2]));
        assert_eq!(
            planned_elements(&[2, 3], 0b01),
            (vec![vec![0, 3], vec![1, 4], vec![2, 5]], vec![3])
        );
        assert_eq!(planned_elements(&[2, 1, 2], 0b101), (vec![vec![0, 1, 2, 3]], vec![1]));
        let both = vec![vec![0, 1, 4, 5], vec![2, 3, 6, 7]];
        assert_eq!(planned_elements(&[2, 2, 2], 0b101), (both, vec![2]));
        let middle = vec![vec![0, 2], vec![1, 3], vec![4, 6], vec![5, 7]];
        assert_eq!(planned_elements(&[2, 2, 2], 0b010), (middle, vec![2, 2]));
        assert_eq!(planned_elements(&[3], 0), (vec![vec![0], vec![1], vec![2]], vec![3]));
        assert_eq!(planned_elements(&[], 0), (vec![vec![0]], vec![]));
    }

    #[test]
    fn empty_tensors_reduce_to_the_neutral_element_or_stay_empty() {
        assert_eq!(planned_elements(&[2, 0, 4], 0b010), (vec![vec![]; 8], vec![2, 4]));
        assert_eq!(planned_elements(&[2, 0, 4], 0b100), (vec![], vec![2, 0]));
        assert_eq!(planned_elements(&[0], 0b1), (vec![vec![]], vec![]));
        assert_eq!(Plan::new(&[2, 0], 0b11, Reduced::Stay).shape(), [1, 1]);
    }

    #[test]
    fn threads_take_whole_groups_or_many_columns() {
        assert_eq!(Plan::new(&[1 << 20, 8], 0b10, Reduced::Go).grain(), GRAIN / 8);
        assert_eq!(Plan::new(&[1000, 3, 7], 0b010, Reduced::Go).grain() % 7, 0);
        assert_eq!(Plan::new(&[1 << 20, 4000], 0b01, Reduced::Go).grain(), COLUMNS);
        assert_eq!(Plan::new(&[3, 0], 0b01, Reduced::Go).grain(), GRAIN);
    }
}
