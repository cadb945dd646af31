//! The operands of the 8-bit loops, and the packed layout of 8-bit weights.

use std::ops::Range;

use super::{Image, Shape};
use crate::indirect::Window;

/// Channels of a strip: the bytes of an AVX-512 vector.
pub(super) const STRIP: usize = 64;
/// Products that a vector instruction adds to each sum.
pub(super) const QUAD: usize = 4;

/// The kernels of 8-bit values, and the requantization parameters.
///
/// A sum is `bias + Σ (x - zero_point) * (weight - weight's zero point)`, exact while it fits an i32, and modulo 2^32
/// if the bias exceeds that. The output is `sum * scale`, rounded half to even, plus the output's zero point,
/// saturated; NaN becomes the smallest value. Every instruction set gives the same bits.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedWeights<'a> {
    /// Kernels packed by [`pack_u8`](super::pack_u8), [`packed_len_u8`](super::packed_len_u8) elements; fastest if
    /// aligned to 64 bytes.
    pub packed: &'a [i8],
    /// The input's zero point, also the value of the padding.
    pub zero_point: u8,
    /// The weights' zero points: empty if all are 0, or one per output channel.
    pub zero_points: &'a [i8],
    /// Empty, or one per output channel.
    pub bias: &'a [i32],
    /// `input scale * weight scale / output scale`, one per output channel; empty if the output is sums.
    pub scales: &'a [f32],
}

/// The packed layout of weights for windows with a vector kernel.
#[derive(Clone, Copy)]
pub(super) struct VectorLayout {
    /// Width and height of the kernel.
    pub(super) k: usize,
    /// Groups of four input rows that a pass reads.
    pub(super) groups: usize,
    /// Output rows of a pass.
    pub(super) rows: usize,
}

impl VectorLayout {
    /// Returns the layout for a kernel, or `None` if it has no vector kernel.
    pub(super) fn for_kernel(kernel: [usize; 3]) -> Option<Self> {
        match kernel {
            [1, 3, 3] => Some(Self { k: 3, groups: 1, rows: 2 }),
            [1, 5, 5] => Some(Self { k: 5, groups: 2, rows: 1 }),
            _ => None,
        }
    }

    /// Returns the bytes of a strip: the sum of each channel's weights as an i32, then, by group, kernel column and
    /// output row, the weights of the group's four input rows for each channel.
    pub(super) const fn strip_len(self) -> usize {
        QUAD * STRIP * (1 + self.groups * self.k * self.rows)
    }
}

/// Returns the first channel of a strip. The last strip overlaps the previous one instead of being partial, unless it
/// is the only strip.
pub(super) fn first_channel(strip: usize, channels: usize) -> usize {
    (strip * STRIP).min(channels.saturating_sub(STRIP))
}

/// The operands of the loops. `depthwise_u8` has checked that all pixels of the input are inside `x`, that `y` has
/// space for those of the rows, and that there are weights, scales and biases for all channels.
pub(super) struct Job<'a> {
    pub(super) shape: &'a Shape,
    pub(super) x: Image<'a, u8>,
    pub(super) weights: &'a QuantizedWeights<'a>,
    pub(super) rows: Range<usize>,
    /// The first pixel of the rows.
    pub(super) y: *mut u8,
    pub(super) y_stride: usize,
    /// The output's zero point as an unsigned value, and the bits to invert in outputs afterwards.
    pub(super) y_zero: i16,
    pub(super) flip: u8,
    /// Output channels.
    pub(super) channels: usize,
}

impl Job<'_> {
    /// Returns whether `avx512` supports the window.
    pub(super) fn has_vector_kernel(&self) -> bool {
        let Window { input, output, kernel, strides, dilations, pads } = self.shape.window;
        VectorLayout::for_kernel(kernel).is_some()
            && (input[0], output[0], pads[0], self.shape.multiplier) == (1, 1, 0, 1)
            && input[1] * input[2] > 0
            && dilations[1..] == [1, 1]
            && (strides[1..] == [1, 1] || strides[1..] == [2, 2])
    }

    /// Returns the weights tap by tap, each tap with all output channels.
    pub(super) fn weights_by_tap(&self) -> &[i8] {
        let packed = self.weights.packed;
        let taps = self.shape.window.kernel.iter().product::<usize>();
        &packed[packed.len() - taps * self.channels..]
    }
}
