//! 8-bit values: what the loops work on.

use std::ops::Range;

use super::{Image, Shape};
use crate::indirect::Window;

/// Channels of a vector of values.
pub(super) const STRIP: usize = 64;
/// The values that a vector multiplies for each of its sums.
pub(super) const QUAD: usize = 4;

/// The kernels of 8-bit values, and what becomes of the sums.
///
/// A sum is `bias + Σ (x - zero_point) * (weight - weight's zero point)`, exact while it fits an i32,
/// and modulo 2^32 if the bias takes it beyond. Its value is `sum * scale`, rounded half to even, plus
/// the output's zero point, saturated; a NaN becomes the least value. Every instruction set gives the
/// same bits.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedWeights<'a> {
    /// What [`pack_u8`](super::pack_u8) wrote, [`packed_len_u8`](super::packed_len_u8) elements; fastest if it
    /// begins at a multiple of 64 bytes.
    pub packed: &'a [i8],
    /// The input's zero point, which the padding has.
    pub zero_point: u8,
    /// The weights' zero points: none where all are 0, or one per output channel.
    pub zero_points: &'a [i8],
    /// None, or one per output channel.
    pub bias: &'a [i32],
    /// The scales of input and weights multiplied, over that of the output; one per output channel, or none for an output of
    /// sums.
    pub scales: &'a [f32],
}

/// How the weights of windows that have a vector kernel are packed: their width, groups of four input rows that a
/// vector of sums takes up, and output rows at a time.
#[derive(Clone, Copy)]
pub(super) struct VectorLayout {
    pub(super) k: usize,
    pub(super) groups: usize,
    pub(super) rows: usize,
}

impl VectorLayout {
    pub(super) fn of(kernel: [usize; 3]) -> Option<Self> {
        match kernel {
            [1, 3, 3] => Some(Self { k: 3, groups: 1, rows: 2 }),
            [1, 5, 5] => Some(Self { k: 5, groups: 2, rows: 1 }),
            _ => None,
        }
    }

    /// Bytes of a strip: the sum of each channel's weights, and then the weights in fours along
    /// the kernel's columns, by group, kernel column and output row.
    pub(super) const fn strip_len(self) -> usize {
        QUAD * STRIP * (1 + self.groups * self.k * self.rows)
    }
}

/// The first channel of a strip. The last strip overlaps the one before rather than be less than
/// whole, unless it is the only one.
pub(super) fn first_channel(strip: usize, channels: usize) -> usize {
    (strip * STRIP).min(channels.saturating_sub(STRIP))
}

/// What the loops work on. `depthwise_u8` has checked that all pixels of the input lie in `x`, that `y` has room
/// for those of the rows, and that there are weights, scales and bias for all channels.
pub(super) struct Job<'a> {
    pub(super) shape: &'a Shape,
    pub(super) x: Image<'a, u8>,
    pub(super) weights: &'a QuantizedWeights<'a>,
    pub(super) rows: Range<usize>,
    /// The first of the rows.
    pub(super) y: *mut u8,
    pub(super) y_stride: usize,
    /// The output's zero point as of unsigned values, and what to flip in them afterwards.
    pub(super) y_zero: i16,
    pub(super) flip: u8,
    /// Output channels.
    pub(super) channels: usize,
}

impl Job<'_> {
    pub(super) fn has_vector_kernel(&self) -> bool {
        let Window { input, output, kernel, strides, dilations, pads } = self.shape.window;
        VectorLayout::of(kernel).is_some()
            && (input[0], output[0], pads[0], self.shape.multiplier) == (1, 1, 0, 1)
            && input[1] * input[2] > 0
            && dilations[1..] == [1, 1]
            && (strides[1..] == [1, 1] || strides[1..] == [2, 2])
    }

    /// The weights by taps, each with all output channels.
    pub(super) fn plain(&self) -> &[i8] {
        let packed = self.weights.packed;
        let taps = self.shape.window.kernel.iter().product::<usize>();
        &packed[packed.len() - taps * self.channels..]
    }
}
