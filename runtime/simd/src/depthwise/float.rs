//! `f32` depthwise convolution: checks, packing and choice of algorithm.

use std::ops::Range;

use super::float_job::{Job, STRIP, first_channel};
use super::general::General;
use super::row_pass::RowPasses;
use super::{Activation, Image, Shape, bounds};
use crate::gemm_f32::Stored;
use crate::isa::{Isa, dispatch, highest, isa};

/// Elements of a 2 MiB second-level cache.
const L2_ELEMENTS: usize = 1 << 19;

/// The kernels, and the epilogue `activation(sum + bias)`.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Kernels packed by [`pack`], [`packed_len`] elements.
    pub packed: &'a [f32],
    /// One element per output channel.
    pub bias: Option<&'a [f32]>,
    /// The activation.
    pub activation: Activation,
}

/// Returns the elements of packed kernels of `taps` for `channels` output channels; `None` on overflow.
pub fn packed_len(taps: usize, channels: usize) -> Option<usize> {
    let channels = channels.checked_next_multiple_of(STRIP)?;
    taps.checked_mul(channels).filter(|&len| isize::try_from(len).is_ok())
}

/// Packs kernels, `[output channels, 1, taps..]` as in ONNX. The packed layout is the same for every instruction set.
///
/// # Panics
///
/// Panics if `weights` does not have an element per tap and channel, or `packed` does not have [`packed_len`].
pub fn pack<T: Stored>(weights: &[T], taps: usize, channels: usize, packed: &mut [f32]) {
    assert_eq!(Some(weights.len()), taps.checked_mul(channels), "a weight per tap and channel");
    assert_eq!(Some(packed.len()), packed_len(taps, channels), "the length of the packed weights");
    for (strip, packed) in packed.chunks_exact_mut((taps * STRIP).max(1)).enumerate() {
        let first = first_channel(strip, channels);
        for (tap, packed) in packed.chunks_exact_mut(STRIP).enumerate() {
            for (lane, packed) in packed.iter_mut().enumerate() {
                let weight = weights.get((first + lane) * taps + tap);
                *packed = weight.map_or(0.0, |weight| weight.number());
            }
        }
    }
}

/// Convolves the image `x` and writes all pixels of output rows `rows`; `y` starts with the first of them, and its
/// pixels have a stride of `y_stride`.
///
/// Taps in the padding count as zeros. Sums are accumulated in `f32`. Their order, and whether padding takes part,
/// depend on the window; an infinite weight may therefore give NaN in the padding, as it does for zeros in the image.
///
/// # Panics
///
/// Panics if a slice is too short, pixels overlap, rows are not the window's, the packed weights are not of this shape,
/// a dilation is 0, or a position overflows `usize`.
pub fn depthwise(
    shape: &Shape,
    x: Image<'_, f32>,
    weights: &Weights<'_>,
    rows: Range<usize>,
    y: &mut [f32],
    y_stride: usize,
) {
    depthwise_on(isa(), shape, x, weights, rows, y, y_stride);
}

pub(super) fn depthwise_on(
    isa: Isa,
    shape: &Shape,
    x: Image<'_, f32>,
    weights: &Weights<'_>,
    rows: Range<usize>,
    y: &mut [f32],
    y_stride: usize,
) {
    let window = &shape.window;
    let outputs = shape.outputs().unwrap_or(usize::MAX);
    assert!(bounds::is_sound(window), "positions that `usize` holds, and dilations");
    assert!(bounds::rows(window).is_some_and(|all| rows.end <= all), "rows of the window");
    assert!(
        bounds::holds(x.data.len(), window.input_len(), x.stride, shape.channels),
        "an input that holds its pixels"
    );
    let pixels = rows.len().checked_mul(window.output[2]);
    assert!(bounds::holds(y.len(), pixels, y_stride, outputs), "an output that holds its pixels");
    let packed = window.taps().and_then(|taps| packed_len(taps, outputs));
    assert_eq!(packed, Some(weights.packed.len()), "packed weights of this shape");
    assert!(weights.bias.is_none_or(|bias| bias.len() == outputs), "a bias per output channel");
    if rows.is_empty() || window.output[2] == 0 || outputs == 0 {
        return;
    }
    let job = Job {
        shape,
        x: x.data.as_ptr(),
        x_stride: x.stride,
        exceeds_l2: x.data.len().saturating_add(y.len()) > L2_ELEMENTS,
        weights: weights.packed.as_ptr(),
        bias: weights.bias.map_or(std::ptr::null(), <[f32]>::as_ptr),
        activation: weights.activation,
        clamp: clamp(weights.activation),
        rows,
        y: y.as_mut_ptr(),
        y_stride,
        channels: outputs,
    };
    // Half a strip is a whole vector of AVX2.
    let is_half = outputs == STRIP / 2 && isa.min(highest()) >= Isa::Avx2;
    let isa = if is_half { Isa::Avx2 } else { isa };
    let fills_strip = outputs >= STRIP || is_half;
    let is_2d = window.input[0] == 1 && window.output[0] == 1 && window.kernel[0] == 1;
    let has_row_pass = shape.multiplier == 1
        && is_2d
        && window.pads[0] == 0
        && window.dilations[1..] == [1, 1]
        && window.input[1] * window.input[2] > 0
        && fills_strip;
    match (window.kernel, window.strides) {
        ([_, 3, 3], [_, 1, 1]) if has_row_pass => dispatch(isa, RowPasses::<3, 1, 1>(&job)),
        ([_, 3, 3], [_, 2, 1]) if has_row_pass => dispatch(isa, RowPasses::<3, 2, 1>(&job)),
        ([_, 3, 3], [_, 2, 2]) if has_row_pass => dispatch(isa, RowPasses::<3, 2, 2>(&job)),
        ([_, 5, 5], [_, 1, 1]) if has_row_pass => dispatch(isa, RowPasses::<5, 1, 1>(&job)),
        ([_, 5, 5], [_, 2, 1]) if has_row_pass => dispatch(isa, RowPasses::<5, 2, 1>(&job)),
        ([_, 5, 5], [_, 2, 2]) if has_row_pass => dispatch(isa, RowPasses::<5, 2, 2>(&job)),
        _ => dispatch(isa, General(&job)),
    }
}

fn clamp(activation: Activation) -> Option<(f32, f32)> {
    match activation {
        Activation::None | Activation::Silu | Activation::Gelu => None,
        Activation::Relu => Some((0.0, f32::INFINITY)),
        Activation::Relu6 => Some((0.0, 6.0)),
        Activation::Clamp(low, high) => Some((low, high)),
    }
}
