//! 8-bit codes: what the loops work on.

use std::ops::Range;

use super::{Image, Shape};
use crate::indirect::Window;

/// Channels of a vector of codes.
pub(super) const STRIP: usize = 64;
/// The codes that a vector multiplies for each of its sums.
pub(super) const QUAD: usize = 4;

/// The kernels of 8-bit codes, and what becomes of the sums.
///
/// A sum is `bias + Σ (x - zero_point) * (weight - weight's zero point)`, exact while it fits an i32,
/// and modulo 2^32 if the bias takes it beyond. Its code is `sum * scale`, rounded half to even, plus
/// the output's zero point, saturated; a NaN becomes the least code. Every instruction set gives the
/// same bits.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    /// What [`pack_codes`](super::pack_codes) wrote, [`packed_codes_len`](super::packed_codes_len) elements; fastest if it begins at a multiple of
    /// 64 bytes.
    pub packed: &'a [i8],
    /// The input's code for zero, which the padding has.
    pub zero_point: u8,
    /// The weights' codes for zero: none where all are 0, or one per output channel.
    pub zero_points: &'a [i8],
    /// None, or one per output channel.
    pub bias: &'a [i32],
    /// The scales of input and weights multiplied, over that of the output; one per output channel.
    pub scales: &'a [f32],
}

/// Kernels that have a vector form: their width, rows of input that a vector of sums takes up in groups
/// of four, and output rows at a time.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) k: usize,
    pub(super) groups: usize,
    pub(super) rows: usize,
}

impl Form {
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

/// What the loops work on. The door has checked that all pixels of the input and of the rows lie where
/// they should, and that there are weights, scales and bias for all channels.
pub(super) struct Job<'a> {
    pub(super) shape: &'a Shape,
    pub(super) x: Image<'a, u8>,
    pub(super) codes: &'a Codes<'a>,
    pub(super) rows: Range<usize>,
    /// The first of the rows.
    pub(super) y: *mut u8,
    pub(super) y_stride: usize,
    /// The output's code for zero as of unsigned codes, and what to flip in them afterwards.
    pub(super) y_zero: i16,
    pub(super) flip: u8,
    /// Output channels.
    pub(super) channels: usize,
}

impl Job<'_> {
    pub(super) fn has_vector_form(&self) -> bool {
        let Window { input, output, kernel, strides, dilations, pads } = self.shape.window;
        Form::of(kernel).is_some()
            && (input[0], output[0], pads[0], self.shape.multiplier) == (1, 1, 0, 1)
            && input[1] * input[2] > 0
            && dilations[1..] == [1, 1]
            && (strides[1..] == [1, 1] || strides[1..] == [2, 2])
    }

    /// The weights by taps, each with all output channels.
    pub(super) fn plain(&self) -> &[i8] {
        let packed = self.codes.packed;
        let taps = self.shape.window.kernel.iter().product::<usize>();
        &packed[packed.len() - taps * self.channels..]
    }
}
