//! What becomes of sums on their way out, and the numbers for each column.

use super::{LANES, Output, Right, Row, Then, WIDTH};

/// The largest f32 that fits an i32.
#[cfg(target_arch = "x86_64")]
pub(super) const MAX_I32: f32 = 2_147_483_520.0;

/// Where a tile goes.
pub(super) struct Finish<'a, T> {
    pub(super) to: &'a mut [T],
    pub(super) stride: usize,
}

/// The numbers for each column of a tile; those beyond the last column are 0.
#[repr(C, align(64))]
pub(super) struct Columns {
    /// What the sums begin with.
    pub(super) start: [i32; WIDTH],
    pub(super) scales: [f32; WIDTH],
    pub(super) bias: [f32; WIDTH],
    pub(super) zero_points: [i32; WIDTH],
    /// How many columns there are.
    pub(super) count: usize,
    /// Whether all scales are below 1, so that a scaled sum fits an i32 as the sum did.
    pub(super) shrink: bool,
}

impl Columns {
    /// Of the columns from `vector` times 16 on.
    pub(super) fn new(
        right: &Right<'_>,
        vector: usize,
        left_zero: i32,
        bias: &[i32],
        output: &Output<'_>,
    ) -> Self {
        let first = vector * LANES;
        let count = WIDTH.min(right.n - first);
        let depth = right.k as i32;
        let mut zero_points = [0; WIDTH];
        spread(&mut zero_points[..count], right.zero_points, first, i32::from);
        let mut start = [0; WIDTH];
        spread(&mut start[..count], bias, first, |bias| bias);
        for (i, start) in start[..count].chunks_mut(LANES).enumerate() {
            let totals = right.totals(vector + i);
            for ((start, total), zero) in
                start.iter_mut().zip(totals).zip(&zero_points[i * LANES..])
            {
                let total = total.wrapping_sub(depth.wrapping_mul(*zero));
                *start = start.wrapping_sub(left_zero.wrapping_mul(total));
            }
        }
        let mut columns = Self {
            start,
            scales: [0.0; WIDTH],
            bias: [0.0; WIDTH],
            zero_points,
            count,
            shrink: false,
        };
        match output {
            Output::I32(_) => {}
            Output::F32 { scales, bias, .. } => {
                spread(&mut columns.scales[..count], scales, first, |scale| scale);
                spread(&mut columns.bias[..count], bias, first, |bias| bias);
            }
            Output::U8 { scales, .. } | Output::I8 { scales, .. } | Output::U16 { scales, .. } => {
                spread(&mut columns.scales[..count], scales, first, |scale| scale);
            }
        }
        columns.shrink = columns.scales.iter().all(|scale| scale.abs() < 1.0);
        columns
    }

    /// Takes the right side's zero points times the sums of the left side's rows off the sums.
    pub(super) fn correct(&self, sums: &mut [Row], row_sums: &[i32]) {
        for (sums, row) in sums.iter_mut().zip(row_sums) {
            for (sum, zero) in sums.iter_mut().zip(&self.zero_points) {
                *sum = sum.wrapping_sub(zero.wrapping_mul(*row));
            }
        }
    }
}

/// Fills `to` with the elements of `from` from `first` on, with its only one, or not at all.
fn spread<T: Copy, U: Copy>(to: &mut [U], from: &[T], first: usize, as_is: impl Fn(T) -> U) {
    match from {
        [] => {}
        [one] => to.fill(as_is(*one)),
        many => to.iter_mut().zip(&many[first..]).for_each(|(to, &from)| *to = as_is(from)),
    }
}

/// The ONNX rule: scale, round half to even, add the zero point, saturate; NaN becomes the lowest.
#[inline(always)]
pub(super) fn requantize(sum: f32, scale: f32, zero_point: f32, highest: f32) -> f32 {
    let code = (sum * scale).round_ties_even() + zero_point;
    let code = if code >= 0.0 { code } else { 0.0 };
    if code > highest { highest } else { code }
}

/// `sum * scale + bias`, rounded twice.
#[inline(always)]
pub(super) fn dequantize(sum: f32, scale: f32, bias: f32, then: Then) -> f32 {
    let number = sum * scale + bias;
    match then {
        Then::Relu if number < 0.0 => 0.0,
        Then::Relu | Then::Write => number,
    }
}

#[inline(always)]
pub(super) fn finish_i32(sums: &[Row], columns: &Columns, out: Finish<'_, i32>) {
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        to[..columns.count].copy_from_slice(&sums[..columns.count]);
    }
}

#[inline(always)]
pub(super) fn finish_f32(sums: &[Row], columns: &Columns, out: Finish<'_, f32>, then: Then) {
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        let numbers = sums.iter().zip(columns.scales.iter().zip(&columns.bias));
        for (to, (sum, (scale, bias))) in to[..columns.count].iter_mut().zip(numbers) {
            *to = dequantize(*sum as f32, *scale, *bias, then);
        }
    }
}

#[inline(always)]
pub(super) fn finish_u8(
    sums: &[Row],
    columns: &Columns,
    out: Finish<'_, u8>,
    zero_point: i16,
    flip: u8,
) {
    let zero_point = f32::from(zero_point);
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        let numbers = sums.iter().zip(&columns.scales);
        for (to, (sum, scale)) in to[..columns.count].iter_mut().zip(numbers) {
            *to = requantize(*sum as f32, *scale, zero_point, 255.0) as u8 ^ flip;
        }
    }
}

pub(super) fn finish_u16(sums: &[Row], columns: &Columns, out: Finish<'_, u16>, zero_point: u16) {
    let zero_point = f32::from(zero_point);
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        let numbers = sums.iter().zip(&columns.scales);
        for (to, (sum, scale)) in to[..columns.count].iter_mut().zip(numbers) {
            *to = requantize(*sum as f32, *scale, zero_point, 65_535.0) as u16;
        }
    }
}

/// The same bytes, unsigned.
pub(super) fn as_unsigned(codes: &mut [i8]) -> &mut [u8] {
    // SAFETY: the two types have the same layout and no invalid values, and the borrow goes on.
    unsafe { std::slice::from_raw_parts_mut(codes.as_mut_ptr().cast(), codes.len()) }
}
