//! A product of quantized values: its operands, and the positions of its rows. Matrix products and convolutions both
//! create it, and `driver` computes it.

use super::MicroKernels;

/// The depth of a product: `channels` values at each of `taps` taps. A matrix product has one tap; in a convolution, a
/// tap is a position of the kernel. In the packed right side, each tap starts a new group of 4 values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    pub(crate) taps: usize,
    pub(crate) channels: usize,
}

impl Depth {
    /// Returns the number of groups of 4 values; `None` on overflow.
    pub(crate) fn groups(self) -> Option<usize> {
        self.taps.checked_mul(self.channels.div_ceil(4))
    }
}

/// The positions of the left side's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a, T> {
    /// At a fixed stride, for a depth of one tap.
    Strided(usize),
    /// Gathered through a table with a row of taps for each row.
    Table {
        table: &'a [u32],
        /// Elements between pixels.
        stride: usize,
        /// The values of a tap outside the image, in whole groups.
        padding: &'a [T],
    },
}

/// A product whose slice lengths have been checked.
pub(crate) struct Product<'a, T> {
    pub(crate) kernels: &'static MicroKernels,
    pub(crate) data: &'a [T],
    pub(crate) zero_point: T,
    pub(crate) rows: Rows<'a, T>,
    pub(crate) depth: Depth,
    /// The packed panels of `n` columns.
    pub(crate) packed: &'a [i8],
    pub(crate) n: usize,
    /// Index of the first column in slices of one element per column.
    pub(crate) column: usize,
    pub(crate) zero_points: &'a [i8],
    pub(crate) bias: &'a [i32],
}
