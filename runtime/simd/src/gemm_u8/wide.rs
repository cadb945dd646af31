//! Products with u16 values on the left: the micro-kernels multiply low and high bytes separately, and the sums are
//! combined in 64 bits.

use super::{
    Accumulators, Columns, GemmError, LANES, Lhs, MAX_K_U16_SUMS, MAX_NR, MicroKernels, Out,
    Output, Product, Rhs, Rows, Tile, check, isa, kernels,
    pack::{LINE, Panel, width},
    product, requant,
};
use crate::indirect::PADDING;

/// The most rows of a tile: each takes two of a kernel's rows.
const ROWS: usize = 3;
/// The depth of a tile in groups of 4.
const GROUPS: usize = 256;
/// The bytes of a tile's rows: for each row the low bytes, then the high ones.
type Bytes = [[[u8; 4]; GROUPS]; ROWS * 2];

/// Like [`gemm`](super::gemm) for u16 values on the left; slower.
///
/// Sums are exact in 64 bits, and are converted to f32 or, for [`Output::I32`], to i32.
///
/// # Errors
///
/// Returns an error like `gemm`, and if the output is sums and the depth exceeds [`MAX_K_U16_SUMS`].
pub fn gemm_u16(
    lhs: &Lhs<'_, u16>,
    rhs: &Rhs<'_>,
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    gemm_u16_by(kernels(isa()), lhs, rhs, bias, output, stride)
}

pub(super) fn gemm_u16_by(
    kernels: &'static MicroKernels,
    lhs: &Lhs<'_, u16>,
    rhs: &Rhs<'_>,
    bias: &[i32],
    mut output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    check(lhs, rhs, bias, &output, stride)?;
    if matches!(output, Output::I32(_)) && rhs.k > MAX_K_U16_SUMS {
        return Err(GemmError::TooDeep);
    }
    let product = product(kernels, lhs, rhs, bias);
    // SAFETY: `kernels` returns only kernels that this machine supports, and `check` compared the
    // packed side's length.
    unsafe { product.run_wide(lhs.rows, &mut output, 0, stride) };
    Ok(())
}

impl Product<'_, u16> {
    /// Computes the first `count` rows. They start at element `at` of the output, with a stride of `stride`.
    ///
    /// # Safety
    ///
    /// The kernels are those of an instruction set that this machine has, and `packed` has the length that depth and
    /// columns require.
    pub(crate) unsafe fn run_wide(
        &self,
        count: usize,
        output: &mut Output<'_>,
        output_start: usize,
        stride: usize,
    ) {
        let mut bytes = [[[0; 4]; GROUPS]; ROWS * 2];
        for first in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - first);
            let row_sums: [i64; ROWS] =
                std::array::from_fn(|row| if row < rows { self.wide_sum(first + row) } else { 0 });
            let mut vectors_left = self.n.div_ceil(LANES);
            let mut vector = 0;
            while vectors_left > 0 {
                let vectors = width(vectors_left);
                let columns = Columns::plain(self, vector, vectors);
                let panel = Panel::new(self.packed, self.depth, vector, vectors);
                // SAFETY: rows `first..first + rows` are of the product, and the panel is as wide as
                // `vectors`.
                let totals =
                    unsafe { self.totals(first, rows, &columns, &panel, vectors, &mut bytes) };
                for (row, totals) in totals[..rows].iter().enumerate() {
                    let output_start = output_start + (first + row) * stride + vector * LANES;
                    let column_sums = panel.sums().take(columns.count);
                    for (i, column_sum) in column_sums.enumerate() {
                        let column = self.column + vector * LANES + i;
                        let sum = self.sum(column, totals[i], row_sums[row], column_sum);
                        write(output, output_start + i, column, sum);
                    }
                }
                vector += vectors;
                vectors_left -= vectors;
            }
        }
    }

    /// Computes the products of rows and a panel.
    ///
    /// # Safety
    ///
    /// The kernels are those of an instruction set that this machine has; the rows are of the product, and the panel
    /// has this width.
    unsafe fn totals(
        &self,
        first: usize,
        rows: usize,
        columns: &Columns,
        panel: &Panel<'_>,
        vectors: usize,
        bytes: &mut Bytes,
    ) -> [[i64; MAX_NR]; ROWS] {
        let mut totals = [[0; MAX_NR]; ROWS];
        let mut sums = Accumulators::new();
        for (block, weights) in panel.weights.chunks(GROUPS * vectors * LINE).enumerate() {
            let groups = weights.len() / (vectors * LINE);
            for row in 0..rows {
                let (low, high) = bytes[row * 2..].split_at_mut(1);
                let byte_pairs = low[0].iter_mut().zip(&mut high[0]).take(groups);
                for (i, (low, high)) in byte_pairs.enumerate() {
                    (*low, *high) = self.group(first + row, block * GROUPS + i);
                }
            }
            let tile = Tile {
                a: bytes.as_flattened().as_flattened().as_ptr(),
                stride: GROUPS * 4,
                table: std::ptr::null(),
                padding: std::ptr::null(),
                taps: 1,
                groups,
                tail: 0,
                count: 1,
                rows: rows * 2,
                vectors,
                b: weights.as_ptr(),
                prefetch: weights.as_ptr(),
                prefetch_end: weights.as_ptr(),
                row_sums: std::ptr::null(),
            };
            let out = Out::I32(sums.0.as_mut_ptr().cast());
            // SAFETY: `kernels` returns only kernels that this machine supports; the rows are those
            // of `bytes`, the groups those of `weights`, and the sums have room for each row of the
            // columns.
            unsafe { (self.kernels.small().tiles)(&tile, columns, out, MAX_NR) };
            for (totals, sums) in totals.iter_mut().zip(sums.0.chunks_exact(2)) {
                for ((total, low), high) in totals.iter_mut().zip(&sums[0]).zip(&sums[1]) {
                    *total += i64::from(*low) + (i64::from(*high) << 8);
                }
            }
        }
        totals
    }

    /// Returns the values of a tap of a row.
    fn tap(&self, row: usize, tap: usize) -> &[u16] {
        let width = self.depth.channels;
        match self.rows {
            Rows::Strided(stride) => &self.data[row * stride..][..width],
            Rows::Table { table, stride, padding } => match table[row * self.depth.taps + tap] {
                PADDING => &padding[..width],
                entry => &self.data[entry as usize * stride..][..width],
            },
        }
    }

    /// Returns the low and the high bytes of a group of 4 values, with zeros after the last value of a tap.
    fn group(&self, row: usize, group: usize) -> ([u8; 4], [u8; 4]) {
        let groups = self.depth.channels.div_ceil(4);
        let values = &self.tap(row, group / groups)[group % groups * 4..];
        let mut bytes = ([0; 4], [0; 4]);
        for (value, (low, high)) in values.iter().zip(bytes.0.iter_mut().zip(&mut bytes.1)) {
            [*low, *high] = value.to_le_bytes();
        }
        bytes
    }

    /// Returns the sum of a row's values.
    fn wide_sum(&self, row: usize) -> i64 {
        let taps = (0..self.depth.taps).flat_map(|tap| self.tap(row, tap));
        taps.map(|&value| i64::from(value)).sum()
    }

    /// Combines the sum of a row and a column from the sum of products and the sums of their values.
    fn sum(&self, column: usize, total: i64, row_sum: i64, column_sum: i32) -> i64 {
        let zero = i64::from(column_value(self.zero_points, column).unwrap_or(0));
        let k = (self.depth.taps * self.depth.channels) as i64;
        let column_sum = i64::from(column_sum) - k * zero;
        let bias = i64::from(column_value(self.bias, column).unwrap_or(0));
        bias + total - zero * row_sum - i64::from(self.zero_point) * column_sum
    }
}

/// Writes the finished sum of a column.
fn write(output: &mut Output<'_>, position: usize, column: usize, sum: i64) {
    let scale = |scales: &[f32]| column_value(scales, column).unwrap_or(0.0);
    match output {
        Output::I32(to) => to[position] = sum as i32,
        Output::F32 { to, scales, bias, activation } => {
            let bias = column_value(bias, column).unwrap_or(0.0);
            to[position] = requant::dequantize(sum as f32, scale(scales), bias, *activation);
        }
        Output::U8 { to, scales, zero_point } => {
            let zero_point = f32::from(*zero_point);
            to[position] = requant::requantize(sum as f32, scale(scales), zero_point, 255.0) as u8;
        }
        Output::I8 { to, scales, zero_point } => {
            let zero_point = f32::from(*zero_point) + 128.0;
            let value = requant::requantize(sum as f32, scale(scales), zero_point, 255.0) as u8;
            to[position] = (value ^ 128).cast_signed();
        }
        Output::U16 { to, scales, zero_point } => {
            let zero = f32::from(*zero_point);
            to[position] = requant::requantize(sum as f32, scale(scales), zero, 65_535.0) as u16;
        }
    }
}

/// Returns the element for `column` from a slice with one element per column, one for all columns, or none.
fn column_value<T: Copy>(values: &[T], column: usize) -> Option<T> {
    if let [one] = values { Some(*one) } else { values.get(column).copied() }
}
