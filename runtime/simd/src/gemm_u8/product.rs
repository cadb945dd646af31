//! A product of quantized values: what is multiplied, and where its rows lie.

use super::MicroKernels;

/// How deep a product is: so many values at each of so many places. Places are groups of 4 values
/// apart in the packed right side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    pub(crate) taps: usize,
    pub(crate) channels: usize,
}

impl Depth {
    /// The groups of 4 values; none if that is beyond memory.
    pub(crate) fn groups(self) -> Option<usize> {
        self.taps.checked_mul(self.channels.div_ceil(4))
    }
}

/// Where the values of a row lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a, T> {
    /// So many elements behind those of the row before; for a depth of one tap.
    Apart(usize),
    /// At the pixels of a table with a row of taps for each row.
    Table {
        table: &'a [u32],
        /// Elements from a pixel to the next.
        stride: usize,
        /// What a tap outside reads: the values of a tap, in whole groups.
        padding: &'a [T],
    },
}

/// A product that is known to lie within its slices.
pub(crate) struct Product<'a, T> {
    pub(crate) kernels: &'static MicroKernels,
    pub(crate) data: &'a [T],
    pub(crate) zero_point: T,
    pub(crate) rows: Rows<'a, T>,
    pub(crate) depth: Depth,
    /// The panels of `n` columns.
    pub(crate) packed: &'a [i8],
    pub(crate) n: usize,
    /// Where the first column is in what has an element for each.
    pub(crate) column: usize,
    pub(crate) zero_points: &'a [i8],
    pub(crate) bias: &'a [i32],
}
