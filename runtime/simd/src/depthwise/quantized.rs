//! 8-bit depthwise convolution: checks of arguments, packing of weights, and choice of the algorithm.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::general_u8::GeneralU8;
use super::quantized_job::{Job, QUAD, QuantizedWeights, STRIP, VectorLayout, first_channel};
use super::{Image, Shape, bounds};
use crate::isa::{Isa, dispatch, isa};

/// The most taps of a window: with more, a sum of products of 255 and 255 may overflow an i32.
pub const MAX_TAPS: usize = 33_025;

/// The output: pixels of output rows.
#[derive(Debug)]
pub enum Output<'a> {
    /// Unsigned.
    U8 {
        /// Starts with the first pixel of the first row.
        to: &'a mut [u8],
        /// The zero point.
        zero_point: u8,
    },
    /// Signed.
    I8 {
        /// Starts with the first pixel of the first row.
        to: &'a mut [i8],
        /// The zero point.
        zero_point: i8,
    },
    /// The plain sums, without scales. Starts with the first pixel of the first row.
    I32(&'a mut [i32]),
}

/// Returns the elements of packed kernels for `channels` output channels; `None` on overflow, or if the kernel has more
/// than [`MAX_TAPS`].
pub fn packed_len_u8(kernel: [usize; 3], channels: usize) -> Option<usize> {
    let taps = kernel[0].checked_mul(kernel[1])?.checked_mul(kernel[2])?;
    let strips = match VectorLayout::for_kernel(kernel) {
        Some(layout) => channels.div_ceil(STRIP).checked_mul(layout.strip_len())?,
        None => 0,
    };
    let len = taps.checked_mul(channels)?.checked_add(strips)?;
    (taps <= MAX_TAPS && isize::try_from(len).is_ok()).then_some(len)
}

/// Packs kernels, `[output channels, 1, taps..]` as in ONNX. The packed layout is the same for every instruction set.
/// For unsigned weights, subtract 128 from values and zero points.
///
/// # Panics
///
/// Panics if `weights` does not have an element per tap and channel, or `packed` does not have [`packed_len_u8`].
pub fn pack_u8(weights: &[i8], kernel: [usize; 3], channels: usize, packed: &mut [i8]) {
    assert_eq!(
        Some(packed.len()),
        packed_len_u8(kernel, channels),
        "the length of the packed weights"
    );
    let taps = kernel[0] * kernel[1] * kernel[2];
    assert_eq!(Some(weights.len()), taps.checked_mul(channels), "a weight per tap and channel");
    // The weights of the vector kernel, if there is one, then the weights tap by tap for the general algorithm.
    let (strips, by_tap) = packed.split_at_mut(packed.len() - weights.len());
    for (tap, by_tap) in by_tap.chunks_exact_mut(channels.max(1)).enumerate() {
        for (channel, packed) in by_tap.iter_mut().enumerate() {
            *packed = weights[channel * taps + tap];
        }
    }
    let Some(layout) = VectorLayout::for_kernel(kernel) else { return };
    for (strip, packed_strip) in strips.chunks_exact_mut(layout.strip_len()).enumerate() {
        packed_strip.fill(0);
        let first = first_channel(strip, channels);
        let (totals, quads) = packed_strip.split_at_mut(QUAD * STRIP);
        for channel in 0..STRIP.min(channels - first) {
            let weights = &weights[(first + channel) * taps..][..taps];
            let position = position_in_strip(channel) * QUAD;
            let total: i32 = weights.iter().map(|&weight| i32::from(weight)).sum();
            totals[position..position + QUAD]
                .copy_from_slice(&total.to_ne_bytes().map(u8::cast_signed));
            for (tap, &weight) in weights.iter().enumerate() {
                for r in 0..layout.rows {
                    // The input row of the pass that the tap reads for its output row `r`.
                    let row = tap / layout.k + r;
                    let index = (row / QUAD * layout.k + tap % layout.k) * layout.rows + r;
                    quads[index * QUAD * STRIP + position + row % QUAD] = weight;
                }
            }
        }
    }
}

/// Returns the position of a channel's sum within a strip of four vectors. Interleaving the bytes of four input rows
/// puts every fourth run of four channels into each vector.
pub(super) fn position_in_strip(channel: usize) -> usize {
    channel / 4 % 4 * 16 + channel / 16 * 4 + channel % 4
}

/// Convolves the image `x` and writes all pixels of output rows `rows`, with a stride of `stride`.
///
/// Windows of 3x3 and 5x5 without dilation or multiplier have a vector kernel, which is fastest if the weights' zero
/// points are all 0.
///
/// # Panics
///
/// Panics if a slice is too short, pixels overlap, rows are not the window's, the packed weights are not of this shape,
/// a dilation is 0, a position overflows `usize`, or the window has more than [`MAX_TAPS`].
pub fn depthwise_u8(
    shape: &Shape,
    x: Image<'_, u8>,
    weights: &QuantizedWeights<'_>,
    rows: Range<usize>,
    output: Output<'_>,
    stride: usize,
) {
    depthwise_u8_on(isa(), shape, x, weights, rows, output, stride);
}

pub(super) fn depthwise_u8_on(
    isa: Isa,
    shape: &Shape,
    x: Image<'_, u8>,
    weights: &QuantizedWeights<'_>,
    rows: Range<usize>,
    output: Output<'_>,
    stride: usize,
) {
    let window = &shape.window;
    let outputs = shape.outputs().unwrap_or(usize::MAX);
    let fits_channels = |len: usize| len == 0 || len == outputs;
    let scale_count = if matches!(output, Output::I32(_)) { 0 } else { outputs };
    let mut sums = None;
    let (y, y_len, y_zero, flip) = match output {
        Output::U8 { to, zero_point } => (to.as_mut_ptr(), to.len(), i16::from(zero_point), 0),
        Output::I32(to) => {
            sums = Some(to.as_mut_ptr());
            (std::ptr::null_mut(), to.len(), 0, 0)
        }
        // Signed values are computed as unsigned ones that are 128 larger.
        Output::I8 { to, zero_point } => {
            (to.as_mut_ptr().cast(), to.len(), i16::from(zero_point) + 128, 128)
        }
    };
    assert!(bounds::is_sound(window), "positions that `usize` holds, and dilations");
    assert!(bounds::rows(window).is_some_and(|all| rows.end <= all), "rows of the window");
    assert!(
        bounds::holds(x.data.len(), window.input_len(), x.stride, shape.channels),
        "an input that holds its pixels"
    );
    let pixels = rows.len().checked_mul(window.output[2]);
    assert!(bounds::holds(y_len, pixels, stride, outputs), "an output that holds its pixels");
    let packed = packed_len_u8(window.kernel, outputs);
    assert_eq!(packed, Some(weights.packed.len()), "packed weights of this shape");
    assert!(
        fits_channels(weights.bias.len()) && fits_channels(weights.zero_points.len()),
        "a number per channel"
    );
    assert_eq!(weights.scales.len(), scale_count, "a scale per output channel of values");
    if rows.is_empty() || window.output[2] == 0 || outputs == 0 {
        return;
    }
    let job = Job { shape, x, weights, rows, y, y_stride: stride, y_zero, flip, channels: outputs };
    let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
    match isa.min(best) {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx if job.has_vector_kernel() && sums.is_none() => {
            match (window.kernel[1], window.strides[1]) {
                // SAFETY: `best` found AVX-512; the asserts above checked the lengths of `x`, `y`
                // and the weights.
                (3, 1) => unsafe { avx512::row_passes::<3, 1, 1, 2>(&job) },
                // SAFETY: `best` found AVX-512; the asserts above checked the lengths of `x`, `y`
                // and the weights.
                (3, _) => unsafe { avx512::row_passes::<3, 2, 1, 1>(&job) },
                // SAFETY: `best` found AVX-512; the asserts above checked the lengths of `x`, `y`
                // and the weights.
                (_, 1) => unsafe { avx512::row_passes::<5, 1, 2, 1>(&job) },
                // SAFETY: `best` found AVX-512; the asserts above checked the lengths of `x`, `y`
                // and the weights.
                _ => unsafe { avx512::row_passes::<5, 2, 2, 1>(&job) },
            }
        }
        isa => dispatch(isa, GeneralU8 { job: &job, sums }),
    }
}
