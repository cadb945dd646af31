//! Products of u16 codes: their bytes are multiplied apart, and the sums put together in 64 bits.

use super::{
    Forms, GemmError, LANES, Left, MAX_K_U16_SUMS, MAX_VECTORS, Output, Right, Sums, Tile, WIDTH,
    check, forms, isa, pack, requant, width,
};

/// The most rows of a tile: each takes two of a kernel's.
const ROWS: usize = 3;
/// How deep a tile goes at a time, in elements of k; a multiple of 4.
const DEPTH: usize = 1024;

/// As [`gemm`](super::gemm) for u16 codes on the left; slower.
///
/// Sums are exact in 64 bits, and go from there to f32 or, for [`Output::I32`], to i32.
///
/// # Errors
///
/// As `gemm`, and if the sums are wanted and the depth is beyond [`MAX_K_U16_SUMS`].
pub fn gemm_u16(
    left: &Left<'_, u16>,
    right: &Right<'_>,
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    gemm_u16_by(forms(isa()), left, right, bias, output, stride)
}

pub(super) fn gemm_u16_by(
    forms: &Forms,
    left: &Left<'_, u16>,
    right: &Right<'_>,
    bias: &[i32],
    mut output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    check(left, right, bias, &output, stride)?;
    if matches!(output, Output::I32(_)) && right.k > MAX_K_U16_SUMS {
        return Err(GemmError::TooDeep);
    }
    let vectors = right.n.div_ceil(LANES);
    let mut bytes = [[0u8; DEPTH]; ROWS * 2];
    let mut sums = Sums::new();
    for first in (0..left.rows).step_by(ROWS) {
        let rows = ROWS.min(left.rows - first);
        let row_of = |row: usize| &left.codes[(first + row) * left.stride..][..right.k];
        let row_sums: [i64; ROWS] = std::array::from_fn(|row| {
            if row < rows { row_of(row).iter().map(|&a| i64::from(a)).sum() } else { 0 }
        });
        let mut vector = 0;
        while vector < vectors {
            let width = width(vectors - vector);
            let mut totals = [[0i64; WIDTH]; ROWS];
            for from in (0..right.k).step_by(DEPTH) {
                let depth = DEPTH.min(right.k - from);
                for row in 0..rows {
                    let (low, high) = bytes[row * 2..].split_at_mut(1);
                    let codes = &row_of(row)[from..from + depth];
                    for ((a, low), high) in codes.iter().zip(&mut low[0]).zip(&mut high[0]) {
                        [*low, *high] = a.to_le_bytes();
                    }
                }
                let skip = from / 4 * pack::GROUP_BYTES;
                let b = right.vectors(vector, width).map(|b| b.wrapping_add(skip));
                let tile = Tile {
                    a: bytes.as_flattened().as_ptr(),
                    stride: DEPTH,
                    rows: rows * 2,
                    groups: depth / 4,
                    tail: depth % 4,
                    vectors: width,
                    b,
                    ahead: b[MAX_VECTORS - 1],
                };
                // SAFETY: `forms` names only what this machine has; the rows are those of `bytes`,
                // and the groups of the columns from `from` on are within the depth.
                unsafe { (forms.multiply)(&tile, &[0; WIDTH], &mut sums) };
                for (totals, sums) in totals.iter_mut().zip(sums.0.chunks_exact(2)) {
                    for ((total, low), high) in totals.iter_mut().zip(&sums[0]).zip(&sums[1]) {
                        *total += i64::from(*low) + (i64::from(*high) << 8);
                    }
                }
            }
            for (row, totals) in totals[..rows].iter().enumerate() {
                let zero = i64::from(left.zero_point);
                let at = (first + row) * stride;
                finish(totals, row_sums[row], zero, right, bias, vector * LANES, &mut output, at);
            }
            vector += width;
        }
    }
    Ok(())
}

/// Finishes the columns from `first` on of one row, which begins at `at` in the output.
#[expect(clippy::too_many_arguments, reason = "a piece of the function above")]
fn finish(
    totals: &[i64; WIDTH],
    row_sum: i64,
    left_zero: i64,
    right: &Right<'_>,
    bias: &[i32],
    first: usize,
    output: &mut Output<'_>,
    at: usize,
) {
    let mut column_sums = [0; LANES];
    for (i, total) in totals.iter().enumerate().take(right.n - first) {
        let column = first + i;
        if i.is_multiple_of(LANES) {
            column_sums = right.totals(column / LANES);
        }
        let zero = i64::from(of(right.zero_points, column).unwrap_or(0));
        let column_sum = i64::from(column_sums[i % LANES]) - right.k as i64 * zero;
        let bias = i64::from(of(bias, column).unwrap_or(0));
        let sum = bias + total - zero * row_sum - left_zero * column_sum;
        let scale = |scales: &[f32]| of(scales, column).unwrap_or(0.0);
        let at = at + column;
        match output {
            Output::I32(to) => to[at] = sum as i32,
            Output::F32 { to, scales, bias, then } => {
                let bias = of(bias, column).unwrap_or(0.0);
                to[at] = requant::dequantize(sum as f32, scale(scales), bias, *then);
            }
            Output::U8 { to, scales, zero_point } => {
                let zero_point = f32::from(*zero_point);
                to[at] = requant::requantize(sum as f32, scale(scales), zero_point, 255.0) as u8;
            }
            Output::I8 { to, scales, zero_point } => {
                let zero_point = f32::from(*zero_point) + 128.0;
                let code = requant::requantize(sum as f32, scale(scales), zero_point, 255.0) as u8;
                to[at] = (code ^ 128).cast_signed();
            }
            Output::U16 { to, scales, zero_point } => {
                let zero = f32::from(*zero_point);
                to[at] = requant::requantize(sum as f32, scale(scales), zero, 65_535.0) as u16;
            }
        }
    }
}

/// The element for `column` of a slice with one for each, one for all, or none.
fn of<T: Copy>(values: &[T], column: usize) -> Option<T> {
    if let [one] = values { Some(*one) } else { values.get(column).copied() }
}
