//! The rows of a resized tensor, and the input rows that contribute to each output row.

use udo_api::MAX_RANK;

use super::axis::OUTSIDE;
use super::plan::Plan;
use crate::family::axes::Axes;
use crate::number::Real;

/// Input elements and weights of each output element along an axis.
#[derive(Clone, Copy)]
pub(super) struct Table<'a, W> {
    /// The first input element of each output element, or [`OUTSIDE`].
    pub(super) starts: &'a [u32],
    /// The same number for each start; empty if output elements are copies.
    pub(super) weights: &'a [W],
    /// Input elements per output element.
    pub(super) taps: usize,
}

/// The table of each resized axis.
pub(super) type Tables<'a, W> = [Option<Table<'a, W>>; MAX_RANK];

/// Division of a tensor into rows, which span the last resized axis and those after it.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// The last resized axis.
    pub(super) axis: usize,
    /// Output extents of all axes.
    output_dims: Axes,
    /// Input strides of all axes.
    strides: Axes,
    /// Input and output extent of the last resized axis, and the elements per position of it.
    pub(super) input_extent: usize,
    pub(super) output_extent: usize,
    pub(super) inner: usize,
}

impl Grid {
    /// Returns the grid of an input with these extents.
    pub(super) fn new(plan: &Plan, dims: &[usize]) -> Self {
        let axis = plan.axes.iter().rposition(Option::is_some);
        let axis = axis.unwrap_or(dims.len().saturating_sub(1));
        let (mut output_dims, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        let mut stride = 1;
        for (at, &dim) in dims.iter().enumerate().rev() {
            output_dims[at] = plan.axes[at].map_or(dim, |axis| axis.to);
            strides[at] = stride;
            stride *= dim;
        }
        let input_extent = dims.get(axis).copied().unwrap_or(1);
        let (output_extent, inner) =
            (output_dims[axis], if dims.is_empty() { 1 } else { strides[axis] });
        Self { axis, output_dims, strides, input_extent, output_extent, inner }
    }

    /// Returns the elements of an input row.
    pub(super) fn line_len(&self) -> usize {
        self.input_extent * self.inner
    }

    /// Returns the elements of an output row.
    pub(super) fn row_len(&self) -> usize {
        self.output_extent * self.inner
    }

    /// Returns the number of output rows.
    pub(super) fn rows(&self) -> usize {
        self.output_dims[..self.axis].iter().product()
    }

    /// Returns the output's extents for an input of this rank.
    pub(super) fn dims(&self, rank: usize) -> &[usize] {
        &self.output_dims[..rank]
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
            taps_at: [0; MAX_RANK],
            axes: 0,
            offset: 0,
            is_done: false,
        };
        let mut remaining_index = row;
        for axis in (0..self.axis).rev() {
            let coordinate = remaining_index % self.output_dims[axis];
            remaining_index /= self.output_dims[axis];
            let Some(table) = &tables[axis] else {
                sources.offset += coordinate * self.strides[axis];
                continue;
            };
            let start = table.starts[coordinate];
            if start == OUTSIDE {
                return None;
            }
            sources.offset += start as usize * self.strides[axis];
            if !table.weights.is_empty() {
                sources.weights[sources.axes] =
                    &table.weights[coordinate * table.taps..][..table.taps];
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
    /// The current position in each axis' weights.
    taps_at: Axes,
    axes: usize,
    pub(super) offset: usize,
    is_done: bool,
}

impl<W: Real> Iterator for Sources<'_, W> {
    type Item = (usize, W);

    fn next(&mut self) -> Option<(usize, W)> {
        while !self.is_done {
            let (mut offset, mut weight) = (self.offset, W::from_f64(1.0));
            for axis in 0..self.axes {
                offset += self.taps_at[axis] * self.strides[axis];
                weight = weight.mul(self.weights[axis][self.taps_at[axis]]);
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
            self.taps_at[axis] += 1;
            if self.taps_at[axis] < self.weights[axis].len() {
                return;
            }
            self.taps_at[axis] = 0;
        }
        self.is_done = true;
    }
}
