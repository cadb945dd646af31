//! Requantization of sums, and the parameters of each column.

use super::pack::Panel;
use super::product::Product;
use super::{Accumulators, Activation, LANES, MAX_NR, Out, Output, PADDING, Row, Tile};

/// The largest `f32` that fits an i32.
pub(crate) const MAX_I32: f32 = 2_147_483_520.0;

/// The parameters of a tile's columns; those past the last column are 0.
#[repr(C, align(64))]
pub(super) struct Columns {
    /// Initial values of the sums.
    pub(super) start: [i32; MAX_NR],
    pub(super) scales: [f32; MAX_NR],
    pub(super) bias: [f32; MAX_NR],
    pub(super) zero_points: [i32; MAX_NR],
    /// Whether there are zero points, so that row sums are needed.
    pub(super) shifted: bool,
    /// Number of columns.
    pub(super) count: usize,
    /// Whether all scales are below 1, so that scaled sums fit an i32 as well.
    pub(super) shrink: bool,
}

impl Columns {
    /// Returns the columns of `vectors` vectors from `vector` on, with zero initial sums.
    pub(super) fn plain<T>(product: &Product<'_, T>, vector: usize, vectors: usize) -> Self {
        Self {
            start: [0; MAX_NR],
            scales: [0.0; MAX_NR],
            bias: [0.0; MAX_NR],
            zero_points: [0; MAX_NR],
            shifted: false,
            count: (vectors * LANES).min(product.n - vector * LANES),
            shrink: false,
        }
    }

    /// Returns the columns of `vectors` vectors from `vector` on.
    pub(super) fn new(
        product: &Product<'_, u8>,
        vector: usize,
        vectors: usize,
        output: &Output<'_>,
    ) -> Self {
        let Product { depth, zero_points: zeros, bias, .. } = *product;
        let first = product.column + vector * LANES;
        let panel = Panel::new(product.packed, depth, vector, vectors);
        let k = (depth.taps * depth.channels) as i32;
        let left_zero = i32::from(product.zero_point);
        let mut columns = Self::plain(product, vector, vectors);
        let count = columns.count;
        columns.shifted = !zeros.is_empty();
        broadcast(&mut columns.zero_points[..count], zeros, first, i32::from);
        broadcast(&mut columns.start[..count], bias, first, |bias| bias);
        let starts = columns.start[..count].iter_mut().zip(&columns.zero_points);
        for ((start, zero), total) in starts.zip(panel.sums()) {
            let total = total.wrapping_sub(k.wrapping_mul(*zero));
            *start = start.wrapping_sub(left_zero.wrapping_mul(total));
        }
        match output {
            Output::I32(_) => {}
            Output::F32 { scales, bias, .. } => {
                broadcast(&mut columns.scales[..count], scales, first, |scale| scale);
                broadcast(&mut columns.bias[..count], bias, first, |bias| bias);
            }
            Output::U8 { scales, .. } | Output::I8 { scales, .. } | Output::U16 { scales, .. } => {
                broadcast(&mut columns.scales[..count], scales, first, |scale| scale);
            }
        }
        columns.shrink = columns.scales.iter().all(|scale| scale.abs() < 1.0);
        columns
    }

    /// Initializes the sums of a tile, including the right side's zero points times the sums of the left side's rows,
    /// which are subtracted.
    ///
    /// # Safety
    ///
    /// The pointers of `tile` are valid as [`Tile`] requires.
    #[inline(always)]
    pub(super) unsafe fn begin(&self, tile: &Tile, sums: &mut Accumulators) {
        for (row, sums) in sums.0[..tile.rows].iter_mut().enumerate() {
            *sums = self.start;
            if self.shifted {
                // SAFETY: if zero points are given, there is a sum per row.
                let row_sum = unsafe { *tile.row_sums.add(row) };
                for (sum, zero) in sums.iter_mut().zip(&self.zero_points) {
                    *sum = sum.wrapping_sub(zero.wrapping_mul(row_sum));
                }
            }
        }
    }
}

/// Fills `to` with the elements of `from` from `first` on, or with its only one; leaves it unchanged if `from` is
/// empty.
fn broadcast<T: Copy, U: Copy>(to: &mut [U], from: &[T], first: usize, as_is: impl Fn(T) -> U) {
    match from {
        [] => {}
        [one] => to.fill(as_is(*one)),
        many => to.iter_mut().zip(&many[first..]).for_each(|(to, &from)| *to = as_is(from)),
    }
}

/// The ONNX rule: scales, rounds half to even, adds the zero point, saturates; NaN becomes the smallest value.
#[inline(always)]
pub(super) fn requantize(sum: f32, scale: f32, zero_point: f32, highest: f32) -> f32 {
    let value = (sum * scale).round_ties_even() + zero_point;
    let value = if value >= 0.0 { value } else { 0.0 };
    if value > highest { highest } else { value }
}

/// `sum * scale + bias`, rounded twice.
#[inline(always)]
pub(super) fn dequantize(sum: f32, scale: f32, bias: f32, activation: Activation) -> f32 {
    let number = sum * scale + bias;
    match activation {
        Activation::Relu if number < 0.0 => 0.0,
        Activation::Relu | Activation::None => number,
    }
}

/// Writes the sums of a tile, with a row stride of `stride`.
///
/// # Safety
///
/// `out` is valid for the rows and columns of the tile.
#[inline(always)]
pub(super) unsafe fn finish(sums: &[Row], columns: &Columns, out: Out, stride: usize) {
    let count = columns.count;
    for (row, sums) in sums.iter().enumerate() {
        let skip = row * stride;
        let numbers = sums.iter().zip(columns.scales.iter().zip(&columns.bias));
        match out {
            Out::I32(to) => {
                // SAFETY: `out` is valid for `count` columns of this row, `skip` elements after
                // `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to.add(skip), count) };
                to.copy_from_slice(&sums[..count]);
            }
            Out::F32(to, activation) => {
                // SAFETY: `out` is valid for `count` columns of this row, `skip` elements after
                // `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to.add(skip), count) };
                for (to, (sum, (scale, bias))) in to.iter_mut().zip(numbers) {
                    *to = dequantize(*sum as f32, *scale, *bias, activation);
                }
            }
            Out::U8(to, zero_point, flip) => {
                // SAFETY: `out` is valid for `count` columns of this row, `skip` elements after
                // `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to.add(skip), count) };
                let zero_point = f32::from(zero_point);
                for (to, (sum, (scale, _))) in to.iter_mut().zip(numbers) {
                    *to = requantize(*sum as f32, *scale, zero_point, 255.0) as u8 ^ flip;
                }
            }
        }
    }
}

pub(super) fn finish_u16(
    sums: &[Row],
    columns: &Columns,
    to: &mut [u16],
    stride: usize,
    zero_point: u16,
) {
    let zero_point = f32::from(zero_point);
    for (row, sums) in sums.iter().enumerate() {
        let numbers = sums.iter().zip(&columns.scales);
        for (to, (sum, scale)) in to[row * stride..][..columns.count].iter_mut().zip(numbers) {
            *to = requantize(*sum as f32, *scale, zero_point, 65_535.0) as u16;
        }
    }
}

/// Returns the sum of values, modulo 2^32.
#[inline(always)]
pub(super) fn sum(values: &[u8]) -> i32 {
    values.iter().fold(0, |sum, &value| sum.wrapping_add(i32::from(value)))
}

/// Returns the largest entry of a table plus 1, where out-of-range entries count as 0, and whether there are any.
#[inline(always)]
pub(super) fn reach(table: &[u32]) -> (u32, bool) {
    let (mut highest, mut inside) = (0, 0);
    for &entry in table {
        highest = highest.max(entry);
        inside = inside.max(entry.wrapping_add(1));
    }
    (inside, highest == PADDING)
}
