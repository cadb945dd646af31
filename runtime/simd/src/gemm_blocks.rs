//! Products of `f32` with block-quantized right sides of 4 or 8 bits: `C = A B`. A block is a number of values along
//! the depth of a column of `B`. Each block has its own scale and zero point, as in large language models.
//!
//! For few rows of `A`, values are dequantized in registers as they are read, so that only the quantized matrix comes
//! from memory. For more rows, callers dequantize some columns with [`dequantize_columns`] and use
//! [`gemm_f32`](crate::gemm_f32).

mod kernel;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::isa::{Isa, dispatch, isa};

use kernel::{DequantizeColumns, Multiply};

/// Bits per value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Two values per byte, the first one in the low half.
    Four,
    /// One value per byte.
    Eight,
}

/// Zero points of blocks.
#[derive(Clone, Copy, Debug)]
pub enum Zeros<'a> {
    /// The same for all blocks.
    Same(f32),
    /// Quantized values of the width of `B`'s values; each column starts at a byte.
    Quantized(&'a [u8]),
    /// Floating-point zero points.
    Floats(&'a [f32]),
}

/// A quantized right side: column by column, each with its blocks in order.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    width: Width,
    /// Values per block.
    block: usize,
    /// Blocks per column.
    count: usize,
    columns: usize,
    values: &'a [u8],
    scales: &'a [f32],
    zeros: Zeros<'a>,
}

/// The smallest block size.
pub const LEAST_BLOCK: usize = 16;

impl Width {
    /// Returns the bytes of `values` values, rounded up.
    pub const fn bytes(self, values: usize) -> usize {
        match self {
            Self::Four => values.div_ceil(2),
            Self::Eight => values,
        }
    }
}

impl<'a> Blocks<'a> {
    /// Describes columns of `count` blocks of `block` values each, a multiple of [`LEAST_BLOCK`]; `None` if a slice is
    /// too short.
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
            Zeros::Quantized(zeros) => zeros.len() >= columns.checked_mul(width.bytes(count))?,
            Zeros::Floats(zeros) => zeros.len() >= blocks,
        };
        let is_whole = block > 0 && block.is_multiple_of(LEAST_BLOCK);
        let fits = is_whole && has_zeros && values.len() >= bytes && scales.len() >= blocks;
        fits.then_some(Self { width, block, count, columns, values, scales, zeros })
    }

    /// Returns the elements of a row of `A` in the order of [`arrange`].
    pub const fn depth(&self) -> usize {
        self.block.saturating_mul(self.count)
    }

    /// Returns `[scale, -zero_point * scale]` of a block: a value is dequantized as `value * scale - zero_point *
    /// scale`.
    #[inline(always)]
    fn scale_and_offset(&self, column: usize, block: usize) -> [f32; 2] {
        let index = column * self.count + block;
        let zero = match self.zeros {
            Zeros::Same(zero) => zero,
            Zeros::Floats(zeros) => zeros[index],
            Zeros::Quantized(zeros) => match self.width {
                Width::Eight => f32::from(zeros[index]),
                Width::Four => {
                    let byte = zeros[column * self.count.div_ceil(2) + block / 2];
                    f32::from(byte >> (block % 2 * 4) & 15)
                }
            },
        };
        let scale = self.scales[index];
        [scale, -zero * scale]
    }

    /// Returns the bytes of a block.
    #[inline(always)]
    fn bytes(&self, column: usize, block: usize) -> &'a [u8] {
        let len = self.width.bytes(self.block);
        &self.values[(column * self.count + block) * len..][..len]
    }
}

/// Returns whether [`arrange`] would leave rows of `depth` elements unchanged.
pub fn is_arranged(b: &Blocks<'_>, depth: usize) -> bool {
    b.width == Width::Eight && depth == b.depth()
}

/// Reorders rows of `depth` elements for the kernels: where two values share a byte, the elements at even positions of
/// each block come first. The last block is padded with zeros.
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

/// Computes a range of columns of the product, for rows in the order of [`arrange`]. Output rows have a stride of
/// `ldc`.
///
/// # Panics
///
/// Panics if there are no such columns, or a slice is too short.
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

/// Dequantizes a range of columns, in the order of [`arrange`]: a row of [`Blocks::depth`] elements for each.
///
/// # Panics
///
/// Panics if there are no such columns.
pub fn dequantize_columns(b: &Blocks<'_>, columns: Range<usize>, y: &mut [f32]) {
    dequantize_columns_on(isa(), b, columns, y);
}

fn dequantize_columns_on(isa: Isa, b: &Blocks<'_>, columns: Range<usize>, y: &mut [f32]) {
    assert!(columns.end <= b.columns, "{columns:?} of {} columns", b.columns);
    dispatch(isa, DequantizeColumns { b, columns, y });
}
