//! The parameters of each column of a product, and the conversion of sums to the output's type.

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
    /// Whether the right side has zero points, so that the sums of the left side's rows are needed.
    pub(super) has_zero_points: bool,
    /// Number of columns.
    pub(super) count: usize,
    /// Whether all scales are below 1, so that scaled sums fit an i32 as well.
    pub(super) scales_below_1: bool,
}

impl Columns {
    /// Returns the columns of `vectors` vectors from `vector` on, with initial sums of 0 and without parameters.
    pub(super) fn plain<T>(product: &Product<'_, T>, vector: usize, vectors: usize) -> Self {
        Self {
            start: [0; MAX_NR],
            scales: [0.0; MAX_NR],
            bias: [0.0; MAX_NR],
            zero_points: [0; MAX_NR],
            has_zero_points: false,
            count: (vectors * LANES).min(product.n - vector * LANES),
            scales_below_1: false,
        }
    }

    /// Returns the columns of `vectors` vectors from `vector` on.
    pub(super) fn new(
        product: &Product<'_, u8>,
        vector: usize,
        vectors: usize,
        output: &Output<'_>,
    ) -> Self {
        let Product { depth, zero_points, bias, .. } = *product;
        let first = product.column + vector * LANES;
        let panel = Panel::new(product.packed, depth, vector, vectors);
        let k = (depth.taps * depth.channels) as i32;
        let left_zero = i32::from(product.zero_point);
        let mut columns = Self::plain(product, vector, vectors);
        let count = columns.count;
        columns.has_zero_points = !zero_points.is_empty();
        broadcast(&mut columns.zero_points[..count], zero_points, first, i32::from);
        broadcast(&mut columns.start[..count], bias, first, |bias| bias);
        let starts = columns.start[..count].iter_mut().zip(&columns.zero_points);
        for ((start, zero), column_sum) in starts.zip(panel.sums()) {
            let column_sum = column_sum.wrapping_sub(k.wrapping_mul(*zero));
            *start = start.wrapping_sub(left_zero.wrapping_mul(column_sum));
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
        columns.scales_below_1 = columns.scales.iter().all(|scale| scale.abs() < 1.0);
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
            if self.has_zero_points {
                // SAFETY: if zero points are given, there is a sum per row.
                let row_sum = unsafe { *tile.row_sums.add(row) };
                for (sum, zero) in sums.iter_mut().zip(&self.zero_points) {
                    *sum = sum.wrapping_sub(zero.wrapping_mul(row_sum));
                }
            }
        }
    }
}

/// Fills `to` with the converted elements of `from`, starting with element `first`, or with its only element. Leaves
/// `to` unchanged if `from` is empty.
fn broadcast<T: Copy, U: Copy>(to: &mut [U], source: &[T], first: usize, convert: impl Fn(T) -> U) {
    match source {
        [] => {}
        [value] => to.fill(convert(*value)),
        values => {
            to.iter_mut().zip(&values[first..]).for_each(|(to, &source)| *to = convert(source));
        }
    }
}

/// Requantizes as ONNX's `QuantizeLinear`: scales, rounds half to even, adds the zero point, and saturates to 0 and the
/// highest value; NaN becomes 0.
#[inline(always)]
pub(super) fn requantize(sum: f32, scale: f32, zero_point: f32, max_value: f32) -> f32 {
    let value = (sum * scale).round_ties_even() + zero_point;
    let value = if value >= 0.0 { value } else { 0.0 };
    if value > max_value { max_value } else { value }
}

/// Returns `sum * scale + bias`, rounded twice, with the activation applied.
#[inline(always)]
pub(super) fn dequantize(sum: f32, scale: f32, bias: f32, activation: Activation) -> f32 {
    let value = sum * scale + bias;
    match activation {
        Activation::Relu if value < 0.0 => 0.0,
        Activation::Relu | Activation::None => value,
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
        let offset = row * stride;
        let values = sums.iter().zip(columns.scales.iter().zip(&columns.bias));
        match out {
            Out::I32(to) => {
                // SAFETY: `out` is valid for `count` columns of this row, `offset` elements after
                // `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to.add(offset), count) };
                to.copy_from_slice(&sums[..count]);
            }
            Out::F32(to, activation) => {
                // SAFETY: `out` is valid for `count` columns of this row, `offset` elements after
                // `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to.add(offset), count) };
                for (to, (sum, (scale, bias))) in to.iter_mut().zip(values) {
                    *to = dequantize(*sum as f32, *scale, *bias, activation);
                }
            }
            Out::U8(to, zero_point, flip) => {
                // SAFETY: `out` is valid for `count` columns of this row, `offset` elements after
                // `to`.
                let to = unsafe { std::slice::from_raw_parts_mut(to.add(offset), count) };
                let zero_point = f32::from(zero_point);
                for (to, (sum, (scale, _))) in to.iter_mut().zip(values) {
                    *to = requantize(*sum as f32, *scale, zero_point, 255.0) as u8 ^ flip;
                }
            }
        }
    }
}

/// Requantizes the sums of a tile to u16, and writes them with a row stride of `stride`.
pub(super) fn finish_u16(
    sums: &[Row],
    columns: &Columns,
    to: &mut [u16],
    stride: usize,
    zero_point: u16,
) {
    let zero_point = f32::from(zero_point);
    for (row, sums) in sums.iter().enumerate() {
        let values = sums.iter().zip(&columns.scales);
        for (to, (sum, scale)) in to[row * stride..][..columns.count].iter_mut().zip(values) {
            *to = requantize(*sum as f32, *scale, zero_point, 65_535.0) as u16;
        }
    }
}

/// Returns the sum of values, modulo 2^32.
#[inline(always)]
pub(super) fn sum(values: &[u8]) -> i32 {
    values.iter().fold(0, |sum, &value| sum.wrapping_add(i32::from(value)))
}

/// Returns the largest entry of a table plus 1, where [`PADDING`] entries count as 0, and whether there are such
/// entries.
#[inline(always)]
pub(super) fn reach(table: &[u32]) -> (u32, bool) {
    let (mut largest, mut end) = (0, 0);
    for &entry in table {
        largest = largest.max(entry);
        end = end.max(entry.wrapping_add(1));
    }
    (end, largest == PADDING)
}
