//! 8-bit depthwise convolution with 3x3 and 5x5 kernels in AVX-512: passes along output rows.
//!
//! As in the passes of `f32` (`row_pass`), each input column is loaded once. Four of its rows are interleaved, so that
//! one `vpdpbusd` instruction adds the products of four taps for 16 channels; the shuffles are shared by all windows
//! that the column belongs to. Packing the sums to bytes reverses the shuffle.

use std::arch::x86_64::{
    __m256i, __m512, __m512i, __mmask32, __mmask64, _mm_loadu_si128, _mm256_loadu_si256,
    _mm256_mask_storeu_epi8, _mm256_maskz_loadu_epi8, _mm512_adds_epi16, _mm512_broadcast_i64x4,
    _mm512_castsi128_si512, _mm512_castsi256_si512, _mm512_castsi512_ps, _mm512_castsi512_si256,
    _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64,
    _mm512_inserti32x4, _mm512_inserti64x4, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_min_ps, _mm512_mul_ps, _mm512_mullo_epi32, _mm512_packs_epi32,
    _mm512_packus_epi16, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_storeu_si512, _mm512_sub_epi32, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16,
    _mm512_unpacklo_epi8, _mm512_unpacklo_epi16, _mm512_xor_si512,
};

use super::quantized_job::{Job, STRIP, VectorLayout, first_channel};
use crate::gemm_u8::MAX_I32;

/// Vectors of sums per vector of bytes. A `quad` in this file is four bytes of one channel, from four input rows.
const QUADS: usize = 4;
/// Four weights each: 1 for the first `i` rows of a group, which makes `vpdpbusd` sum values.
const ONES: [i32; 5] = [0, 1, 0x101, 0x1_0101, 0x101_0101];

/// Computes all rows of a kernel of `K` x `K`, `R` at a time, with input rows in `GROUPS` of four.
///
/// # Safety
///
/// The machine has AVX-512 with VNNI; `x`, `y` and the weights of the job are as long as its shape requires, and its
/// kernel is of this size.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn row_passes<
    const K: usize,
    const STRIDE: usize,
    const GROUPS: usize,
    const R: usize,
>(
    job: &Job<'_>,
) {
    for strip in 0..job.channels.div_ceil(STRIP) {
        let strip =
            Strip::new(job, strip, VectorLayout { k: K, groups: GROUPS, rows: packed_rows(K) });
        // SAFETY: this function has the instructions; `x`, `y` and the weights of the job are as long as its
        // shape requires, and packed for `K` and `GROUPS`.
        unsafe {
            match (strip.width(), strip.has_zeros) {
                (Width::Whole, false) => strip.rows::<K, STRIDE, GROUPS, R, WHOLE, false>(),
                (Width::Half, false) => strip.rows::<K, STRIDE, GROUPS, R, HALF, false>(),
                (Width::Part, false) => strip.rows::<K, STRIDE, GROUPS, R, PART, false>(),
                (Width::Whole, true) => strip.rows::<K, STRIDE, GROUPS, 1, WHOLE, true>(),
                (_, true) => strip.rows::<K, STRIDE, GROUPS, 1, PART, true>(),
            }
        }
    }
}

/// Returns the output rows that the packed weights are arranged for.
const fn packed_rows(k: usize) -> usize {
    if k == 3 { 2 } else { 1 }
}

/// The number of channels of a strip: all lanes; at most half of them, so that two output rows share a vector; or
/// another number.
enum Width {
    Whole,
    Half,
    Part,
}
// `Width` as a constant parameter.
const WHOLE: u8 = 0;
const HALF: u8 = 1;
const PART: u8 = 2;

/// Channels of half a strip.
const HALF_STRIP: usize = STRIP / 2;

/// Up to 64 channels with their parameters; those of half a strip are stored twice.
struct Strip<'a> {
    job: &'a Job<'a>,
    /// The first channel.
    first: usize,
    /// The channels of the strip that exist.
    mask: __mmask64,
    weights: *const i8,
    /// Initial sums, which include all terms that do not depend on the input.
    start: [__m512i; QUADS],
    /// The weights' zero points, and whether any is not 0.
    zeros: [__m512i; QUADS],
    has_zeros: bool,
    scales: [__m512; QUADS],
    /// The output's zero point, and the bits to invert in outputs.
    zero_point: __m512i,
    flip: __m512i,
    /// Whether all scales are below 1, so that scaled sums fit an i32 as well.
    scales_below_1: bool,
    /// A pixel of padding.
    padding: [u8; STRIP],
}

impl<'a> Strip<'a> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    fn new(job: &'a Job<'a>, strip: usize, layout: VectorLayout) -> Self {
        let first = first_channel(strip, job.channels);
        let count = STRIP.min(job.channels - first);
        let packed = &job.weights.packed[strip * layout.strip_len()..][..layout.strip_len()];
        let (mut bias, mut scales) = ([0i32; STRIP], [0f32; STRIP]);
        if !job.weights.bias.is_empty() {
            bias[..count].copy_from_slice(&job.weights.bias[first..first + count]);
        }
        scales[..count].copy_from_slice(&job.weights.scales[first..first + count]);
        let mut zeros = [0i32; STRIP];
        if !job.weights.zero_points.is_empty() {
            for (to, &zero) in zeros.iter_mut().zip(&job.weights.zero_points[first..][..count]) {
                *to = zero.into();
            }
        }
        let is_half = count <= HALF_STRIP;
        if is_half {
            bias.copy_within(..HALF_STRIP, HALF_STRIP);
            scales.copy_within(..HALF_STRIP, HALF_STRIP);
            zeros.copy_within(..HALF_STRIP, HALF_STRIP);
        }
        // A sum of `(x - input_zero) * (weight - weight_zero)` has the constant term `input_zero * weight_zero` per
        // tap.
        let taps = i32::from(job.weights.zero_point) * (layout.k * layout.k) as i32;
        for (bias, zero) in bias.iter_mut().zip(zeros) {
            *bias = bias.wrapping_add(taps * zero);
        }
        let zero = _mm512_set1_epi32(job.weights.zero_point.into());
        let mut start = [zero; QUADS];
        for (i, start) in start.iter_mut().enumerate() {
            // SAFETY: a strip's totals are 4 vectors.
            let total = unsafe { _mm512_loadu_si512(packed.as_ptr().add(i * STRIP).cast()) };
            let total = if is_half { twice(_mm512_castsi512_si256(total)) } else { total };
            *start = _mm512_sub_epi32(runs(&bias, i), _mm512_mullo_epi32(total, zero));
        }
        let scale_bits = scales.map(f32::to_bits).map(u32::cast_signed);
        Self {
            job,
            first,
            mask: u64::MAX >> (STRIP - count),
            weights: packed[QUADS * STRIP..].as_ptr(),
            start,
            zeros: [0, 1, 2, 3].map(|i| runs(&zeros, i)),
            has_zeros: zeros.iter().any(|&zero| zero != 0),
            scales: [0, 1, 2, 3].map(|i| _mm512_castsi512_ps(runs(&scale_bits, i))),
            zero_point: _mm512_set1_epi16(job.y_zero),
            flip: _mm512_set1_epi8(job.flip.cast_signed()),
            scales_below_1: scales.iter().all(|scale| scale.abs() < 1.0),
            padding: [job.weights.zero_point; STRIP],
        }
    }

    fn width(&self) -> Width {
        match self.mask {
            u64::MAX => Width::Whole,
            mask if mask >> HALF_STRIP == 0 => Width::Half,
            _ => Width::Part,
        }
    }

    /// Computes all rows.
    ///
    /// # Safety
    ///
    /// As for [`row_passes`]; `WIDTH` is that of the strip or narrower. Without `ZEROS`, the weights' zero points are
    /// 0; with it, `R` is 1.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn rows<
        const K: usize,
        const STRIDE: usize,
        const GROUPS: usize,
        const R: usize,
        const WIDTH: u8,
        const ZEROS: bool,
    >(
        &self,
    ) {
        let mut row = self.job.rows.start;
        while row < self.job.rows.end {
            let remaining = self.job.rows.end - row;
            if WIDTH == HALF && remaining >= 2 * R {
                // SAFETY: rows `row..row + 2 * R` are of the job, whose pixels and weights are
                // inside its slices.
                unsafe { self.pass::<K, STRIDE, GROUPS, R, HALF, ZEROS>(row) };
                row += 2 * R;
            } else if WIDTH == WHOLE && remaining >= R {
                // SAFETY: rows `row..row + R` are of the job, whose pixels and weights are inside
                // its slices.
                unsafe { self.pass::<K, STRIDE, GROUPS, R, WHOLE, ZEROS>(row) };
                row += R;
            } else if WIDTH == WHOLE {
                // SAFETY: row `row` is of the job, whose pixels and weights are inside its slices.
                unsafe { self.pass::<K, STRIDE, GROUPS, 1, WHOLE, ZEROS>(row) };
                row += 1;
            } else if remaining >= R {
                // SAFETY: rows `row..row + R` are of the job, whose pixels and weights are inside
                // its slices.
                unsafe { self.pass::<K, STRIDE, GROUPS, R, PART, ZEROS>(row) };
                row += R;
            } else {
                // SAFETY: row `row` is of the job, whose pixels and weights are inside its slices.
                unsafe { self.pass::<K, STRIDE, GROUPS, 1, PART, ZEROS>(row) };
                row += 1;
            }
        }
    }

    /// Computes `R` output rows from `row` on; for a `HALF` strip, also the next `R` rows, in the upper lanes.
    ///
    /// # Safety
    ///
    /// As for [`Self::rows`], and the job has those rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[expect(clippy::too_many_lines, reason = "one loop over the columns")]
    unsafe fn pass<
        const K: usize,
        const STRIDE: usize,
        const GROUPS: usize,
        const R: usize,
        const WIDTH: u8,
        const ZEROS: bool,
    >(
        &self,
        row: usize,
    ) {
        let job = self.job;
        let [_, height, width] = job.shape.window.input;
        let [_, top, left] = job.shape.window.pads;
        let across = job.shape.window.output[2];
        let x = job.x.data.as_ptr().wrapping_add(self.first);
        let (mut from, mut step) =
            ([[[self.padding.as_ptr(); 4]; GROUPS]; 2], [[[0; 4]; GROUPS]; 2]);
        for (half, row) in [row, row + R].into_iter().enumerate() {
            for i in 0..(R - 1) * STRIDE + K {
                // Positions above the image wrap around to a number past any height.
                let y = (row * STRIDE + i).wrapping_sub(top);
                if y < height {
                    from[half][i / 4][i % 4] = x.wrapping_add(y * width * job.x.stride);
                    step[half][i / 4][i % 4] = job.x.stride;
                }
            }
        }
        let first = (row - job.rows.start) * across * job.y_stride + self.first;
        let mut to = job.y.wrapping_add(first);
        // Output columns that share an input column, the one completed next first.
        let shared_columns = K.div_ceil(STRIDE);
        let mut sums = [[self.start; R]; K];
        // Sums of the values in each window, which the weights' zero points are multiplied by.
        let mut value_sums = [[_mm512_set1_epi32(0); QUADS]; K];
        // The first column to add: the last `STRIDE` columns of a window that ends before the image or at its start.
        let mut col = (K - STRIDE).wrapping_sub(left.wrapping_add((shared_columns - 1) * STRIDE));
        let padding = _mm512_set1_epi8(job.weights.zero_point.cast_signed());
        for column in 0..shared_columns - 1 + across {
            for s in 0..STRIDE {
                for group in 0..GROUPS {
                    let mut quads = [padding; QUADS];
                    if col < width {
                        let mut rows = [padding; 4];
                        for i in 0..4 {
                            let addresses = [from[0][group][i], from[1][group][i]];
                            // Rows without a tap have weight 0, so their values do not matter.
                            if group * 4 + i < (R - 1) * STRIDE + K {
                                // SAFETY: the pixel at `col` has the strip's channels, as has the
                                // padding.
                                rows[i] = unsafe { self.load::<WIDTH>(addresses) };
                            }
                            for half in 0..if WIDTH == HALF { 2 } else { 1 } {
                                from[half][group][i] =
                                    addresses[half].wrapping_add(step[half][group][i]);
                            }
                        }
                        quads = interleave(rows);
                    }
                    for j in 0..shared_columns {
                        let Some(k) = (K - STRIDE + s).checked_sub(j * STRIDE) else { continue };
                        if ZEROS {
                            let ones = _mm512_set1_epi32(ONES[(K - group * 4).min(4)]);
                            for q in 0..QUADS {
                                value_sums[j][q] =
                                    _mm512_dpbusd_epi32(value_sums[j][q], quads[q], ones);
                            }
                        }
                        for r in 0..R {
                            let offset = ((group * K + k) * packed_rows(K) + r) * QUADS * STRIP;
                            for q in 0..QUADS {
                                let address = self.weights.wrapping_add(offset + q * STRIP);
                                // SAFETY: a strip has vectors for each group, column and row.
                                let weights = unsafe {
                                    if WIDTH == HALF {
                                        twice(_mm256_loadu_si256(address.cast()))
                                    } else {
                                        _mm512_loadu_si512(address.cast())
                                    }
                                };
                                sums[j][r][q] =
                                    _mm512_dpbusd_epi32(sums[j][r][q], quads[q], weights);
                            }
                        }
                    }
                }
                col = col.wrapping_add(1);
            }
            if column + 1 >= shared_columns {
                for r in 0..R {
                    let mut sums = sums[0][r];
                    if ZEROS {
                        for q in 0..QUADS {
                            let zeros = _mm512_mullo_epi32(self.zeros[q], value_sums[0][q]);
                            sums[q] = _mm512_sub_epi32(sums[q], zeros);
                        }
                    }
                    let values = self.requantize(sums);
                    let to = to.wrapping_add(r * across * job.y_stride);
                    // SAFETY: the strip's channels of a pixel of the output, and of one `R` rows below.
                    unsafe {
                        if WIDTH == WHOLE {
                            _mm512_storeu_si512(to.cast(), values);
                        } else {
                            _mm512_mask_storeu_epi8(to.cast(), self.mask, values);
                        }
                        if WIDTH == HALF {
                            let lower = to.wrapping_add(R * across * job.y_stride);
                            let values = _mm512_extracti64x4_epi64::<1>(values);
                            _mm256_mask_storeu_epi8(lower.cast(), self.mask as __mmask32, values);
                        }
                    }
                }
                to = to.wrapping_add(job.y_stride);
            }
            for j in 1..shared_columns {
                sums[j - 1] = sums[j];
                value_sums[j - 1] = value_sums[j];
            }
            sums[shared_columns - 1] = [self.start; R];
            value_sums[shared_columns - 1] = [_mm512_set1_epi32(0); QUADS];
        }
    }

    /// Loads the channels of a pixel; for a `HALF` strip, followed by those of the other pixel.
    ///
    /// # Safety
    ///
    /// The pixels have the strip's channels.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load<const WIDTH: u8>(&self, pixels: [*const u8; 2]) -> __m512i {
        // SAFETY: the masks keep to the strip's channels.
        unsafe {
            match WIDTH {
                WHOLE => _mm512_loadu_si512(pixels[0].cast()),
                HALF => {
                    let [low, high] = pixels
                        .map(|pixel| _mm256_maskz_loadu_epi8(self.mask as __mmask32, pixel.cast()));
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
                }
                _ => _mm512_maskz_loadu_epi8(self.mask, pixels[0].cast()),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn requantize(&self, sums: [__m512i; QUADS]) -> __m512i {
        let mut values = sums;
        for i in 0..QUADS {
            let value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i]), self.scales[i]);
            // NaN passes as the second operand and becomes i32::MIN, like values that are too low.
            let value = if self.scales_below_1 {
                value
            } else {
                _mm512_min_ps(_mm512_set1_ps(MAX_I32), value)
            };
            values[i] = _mm512_cvtps_epi32(value);
        }
        // Saturating to i16 before adding the zero point changes nothing that fits 8 bits.
        let low = _mm512_adds_epi16(_mm512_packs_epi32(values[0], values[1]), self.zero_point);
        let high = _mm512_adds_epi16(_mm512_packs_epi32(values[2], values[3]), self.zero_point);
        _mm512_xor_si512(_mm512_packus_epi16(low, high), self.flip)
    }
}

/// Repeats the lanes in the upper half.
#[inline]
#[target_feature(enable = "avx512f")]
fn twice(lanes: __m256i) -> __m512i {
    _mm512_broadcast_i64x4(lanes)
}

/// Interleaves four rows, so that the four values of a channel are adjacent. Each resulting vector has every fourth run
/// of four channels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; QUADS] {
    let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
    let (first, second) = (_mm512_unpacklo_epi16(ab, cd), _mm512_unpackhi_epi16(ab, cd));
    let (ab, cd) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    [first, second, _mm512_unpacklo_epi16(ab, cd), _mm512_unpackhi_epi16(ab, cd)]
}

/// Returns a vector of parameters in the order of [`interleave`]: every fourth run of four channels from run `i` on.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn runs(values: &[i32; STRIP], i: usize) -> __m512i {
    let load_run = |run: usize| {
        let run: &[i32] = &values[16 * run + 4 * i..][..4];
        // SAFETY: four numbers.
        unsafe { _mm_loadu_si128(run.as_ptr().cast()) }
    };
    let lane_0 = _mm512_castsi128_si512(load_run(0));
    let lanes_0_1 = _mm512_inserti32x4::<1>(lane_0, load_run(1));
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(lanes_0_1, load_run(2)), load_run(3))
}
