//! Products of `f32` with right sides of 4- or 8-bit values, each block of which along the depth has a scale and a zero
//! point of its own, as large language models are quantized: `C = A B'`.
//!
//! Few rows of `A` are multiplied while the values of a column are read, so that these are all that comes from memory.
//! For more rows, callers make numbers of some columns and take [`gemm_f32`](crate::gemm_f32).

mod kernel;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::isa::{Isa, dispatch, isa};

use kernel::{Multiply, Numbers};

/// How many bits a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Two values in a byte, the first in its lower half.
    Four,
    /// One value in a byte.
    Eight,
}

/// Zero points of blocks.
#[derive(Clone, Copy, Debug)]
pub enum Zeros<'a> {
    /// All are the same.
    Same(f32),
    /// Values of as many bits as those of blocks; the ones of a column begin with a byte.
    Values(&'a [u8]),
    /// Numbers.
    Numbers(&'a [f32]),
}

/// A right side: for each column its blocks one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    width: Width,
    /// Values of a block.
    block: usize,
    /// Blocks of a column.
    count: usize,
    columns: usize,
    values: &'a [u8],
    scales: &'a [f32],
    zeros: Zeros<'a>,
}

/// The fewest values of a block.
pub const LEAST_BLOCK: usize = 16;

impl Width {
    /// Bytes of so many values, the last one filled.
    pub const fn bytes(self, values: usize) -> usize {
        match self {
            Self::Four => values.div_ceil(2),
            Self::Eight => values,
        }
    }
}

impl<'a> Blocks<'a> {
    /// Columns of `count` blocks of `block` values each, a multiple of [`LEAST_BLOCK`]; nothing if a slice is too short.
    pub fn new(
        width: Width,
        [block, count, columns]: [usize; 3],
        values: &'a [u8],
        scales: &'a [f32],
        zeros: Zeros<'a>,
    ) -> Option<Self> {
        let blocks = count.checked_mul(columns)?;
        let bytes = blocks.checked_mul(width.bytes(block))?;
        let has_zeros = match zeros {
            Zeros::Same(_) => true,
            Zeros::Values(zeros) => zeros.len() >= columns.checked_mul(width.bytes(count))?,
            Zeros::Numbers(zeros) => zeros.len() >= blocks,
        };
        let is_whole = block > 0 && block.is_multiple_of(LEAST_BLOCK);
        let fits = is_whole && has_zeros && values.len() >= bytes && scales.len() >= blocks;
        fits.then_some(Self { width, block, count, columns, values, scales, zeros })
    }

    /// Numbers of a row of `A` as products take it.
    pub const fn depth(&self) -> usize {
        self.block.saturating_mul(self.count)
    }

    /// The scale of a block, and what is added to its values times that.
    #[inline(always)]
    fn ends(&self, column: usize, block: usize) -> [f32; 2] {
        let at = column * self.count + block;
        let zero = match self.zeros {
            Zeros::Same(zero) => zero,
            Zeros::Numbers(zeros) => zeros[at],
            Zeros::Values(zeros) => match self.width {
                Width::Eight => f32::from(zeros[at]),
                Width::Four => {
                    let byte = zeros[column * self.count.div_ceil(2) + block / 2];
                    f32::from(byte >> (block % 2 * 4) & 15)
                }
            },
        };
        let scale = self.scales[at];
        [scale, -zero * scale]
    }

    /// The bytes of a block.
    #[inline(always)]
    fn bytes(&self, column: usize, block: usize) -> &'a [u8] {
        let len = self.width.bytes(self.block);
        &self.values[(column * self.count + block) * len..][..len]
    }
}

/// Whether rows of `depth` numbers are what [`arrange`] would make of them.
pub fn is_arranged(b: &Blocks<'_>, depth: usize) -> bool {
    b.width == Width::Eight && depth == b.depth()
}

/// Brings rows of `depth` numbers into the order in which products take them: of each block the numbers with even places
/// first, where two values share a byte, and zeros behind the last.
pub fn arrange(b: &Blocks<'_>, depth: usize, x: &[f32], y: &mut [f32]) {
    let rows = x.chunks_exact(depth.max(1)).zip(y.chunks_exact_mut(b.depth().max(1)));
    for (x, y) in rows {
        let blocks = x.chunks(b.block).map(Some).chain(std::iter::repeat(None));
        for (y, x) in y.chunks_exact_mut(b.block).zip(blocks) {
            let x = x.unwrap_or(&[]);
            y.fill(0.0);
            if b.width == Width::Eight {
                y[..x.len()].copy_from_slice(x);
                continue;
            }
            let (even, odd) = y.split_at_mut(b.block / 2);
            even.iter_mut().zip(x.iter().step_by(2)).for_each(|(y, x)| *y = *x);
            odd.iter_mut().zip(x.iter().skip(1).step_by(2)).for_each(|(y, x)| *y = *x);
        }
    }
}

/// Some columns of the product with rows that [`arrange`] made: each row's results lie `ldc` elements behind those of the
/// row before.
///
/// # Panics
///
/// If there are no such columns, or a slice is too short.
pub fn multiply(b: &Blocks<'_>, columns: Range<usize>, a: &[f32], y: &mut [f32], ldc: usize) {
    multiply_on(isa(), b, columns, a, y, ldc);
}

fn multiply_on(
    isa: Isa,
    b: &Blocks<'_>,
    columns: Range<usize>,
    a: &[f32],
    y: &mut [f32],
    ldc: usize,
) {
    assert!(columns.end <= b.columns, "{columns:?} of {} columns", b.columns);
    dispatch(isa, Multiply { b, columns, a, y, ldc });
}

/// What the values of some columns stand for, in the order of [`arrange`]: a row of [`Blocks::depth`] numbers for each.
///
/// # Panics
///
/// If there are no such columns.
pub fn numbers(b: &Blocks<'_>, columns: Range<usize>, y: &mut [f32]) {
    numbers_on(isa(), b, columns, y);
}

fn numbers_on(isa: Isa, b: &Blocks<'_>, columns: Range<usize>, y: &mut [f32]) {
    assert!(columns.end <= b.columns, "{columns:?} of {} columns", b.columns);
    dispatch(isa, Numbers { b, columns, y });
}
