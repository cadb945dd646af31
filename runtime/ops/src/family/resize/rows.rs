//! The rows of a resized tensor, and the input rows that contribute to each.

use udo_api::MAX_RANK;

use super::axis::OUTSIDE;
use super::plan::Plan;
use crate::family::axes::Axes;
use crate::number::Real;

/// Input elements and weights of each output element along an axis.
#[derive(Clone, Copy)]
pub(super) struct Table<'a, W> {
    pub(super) starts: &'a [u32],
    /// The same number for each start; empty if output elements are copies.
    pub(super) weights: &'a [W],
    pub(super) taps: usize,
}

/// The table of each resized axis.
pub(super) type Tables<'a, W> = [Option<Table<'a, W>>; MAX_RANK];

/// Division of a tensor into rows, which span the last resized axis and those after it.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// The last resized axis.
    pub(super) axis: usize,
    /// Output extents of the axes before it, and their input strides.
    to: Axes,
    strides: Axes,
    /// Input and output extent of the axis, in units of the elements after it.
    pub(super) from: usize,
    pub(super) new: usize,
    pub(super) inner: usize,
}

impl Grid {
    /// Returns the grid of an input with these extents.
    pub(super) fn new(plan: &Plan, dims: &[usize]) -> Self {
        let axis = plan.axes.iter().rposition(Option::is_some);
        let axis = axis.unwrap_or(dims.len().saturating_sub(1));
        let (mut to, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        let mut stride = 1;
        for (at, &dim) in dims.iter().enumerate().rev() {
            to[at] = plan.axes[at].map_or(dim, |axis| axis.to);
            strides[at] = stride;
            stride *= dim;
        }
        let from = dims.get(axis).copied().unwrap_or(1);
        let (new, inner) = (to[axis], if dims.is_empty() { 1 } else { strides[axis] });
        Self { axis, to, strides, from, new, inner }
    }

    /// Returns the elements of an input row.
    pub(super) fn line_len(&self) -> usize {
        self.from * self.inner
    }

    /// Returns the elements of an output row.
    pub(super) fn row_len(&self) -> usize {
        self.new * self.inner
    }

    /// Returns the number of output rows.
    pub(super) fn rows(&self) -> usize {
        self.to[..self.axis].iter().product()
    }

    /// Returns the output's extents for an input of this rank.
    pub(super) fn dims(&self, rank: usize) -> &[usize] {
        &self.to[..rank]
    }

    /// Returns the input rows that contribute to output row `row`, or `None` if it is outside the region.
    pub(super) fn sources<'a, W>(
        &self,
        row: usize,
        tables: &Tables<'a, W>,
    ) -> Option<Sources<'a, W>> {
        let none: &[W] = &[];
        let mut sources = Sources {
            weights: [none; MAX_RANK],
            strides: [0; MAX_RANK],
            at: [0; MAX_RANK],
            axes: 0,
            offset: 0,
            ended: false,
        };
        let mut rest = row;
        for axis in (0..self.axis).rev() {
            let place = rest % self.to[axis];
            rest /= self.to[axis];
            let Some(table) = &tables[axis] else {
                sources.offset += place * self.strides[axis];
                continue;
            };
            let start = table.starts[place];
            if start == OUTSIDE {
                return None;
            }
            sources.offset += start as usize * self.strides[axis];
            if !table.weights.is_empty() {
                sources.weights[sources.axes] = &table.weights[place * table.taps..][..table.taps];
                sources.strides[sources.axes] = self.strides[axis];
                sources.axes += 1;
            }
        }
        Some(sources)
    }
}

/// Yields the offset and weight of each contributing input row, without those of weight 0.
pub(super) struct Sources<'a, W> {
    weights: [&'a [W]; MAX_RANK],
    strides: Axes,
    at: Axes,
    axes: usize,
    pub(super) offset: usize,
    ended: bool,
}

impl<W: Real> Iterator for Sources<'_, W> {
    type Item = (usize, W);

    fn next(&mut self) -> Option<(usize, W)> {
        while !self.ended {
            let (mut offset, mut weight) = (self.offset, W::from_f64(1.0));
            for axis in 0..self.axes {
                offset += self.at[axis] * self.strides[axis];
                weight = weight.mul(self.weights[axis][self.at[axis]]);
            }
            self.advance();
            if weight != W::ZERO {
                return Some((offset, weight));
            }
        }
        None
    }
}

impl<W> Sources<'_, W> {
    fn advance(&mut self) {
        for axis in 0..self.axes {
            self.at[axis] += 1;
            if self.at[axis] < self.weights[axis].len() {
                return;
            }
            self.at[axis] = 0;
        }
        self.ended = true;
    }
}
