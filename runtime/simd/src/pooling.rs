//! Pooling: maxima and averages over windows, and averages over whole images.
//!
//! Images are NHWC: the channels of a pixel are contiguous, and pixels have a stride; vectors run over channels. 8-bit
//! windows, and `f32` windows that overlap by more than half, are pooled down the columns first and then across
//! (`separable`), so that windows share work. Padding never takes part in a maximum.
//!
//! As in `depthwise`, a function computes output rows `rows` of one image: rows of the window's second axis, counted
//! over all planes of the first axis. Its output starts with the first of these rows. Nothing allocates.

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod bytes;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod float;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod global;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod quads;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod quantized;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod separable;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use crate::depthwise::Image;
use crate::depthwise::bounds;
use crate::indirect::Window;
pub use float::{average_pool, max_pool};
pub use global::{global_average, global_sums};
pub use quantized::{average_pool_u8, max_pool_u8};

/// The divisor of an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The number of taps inside the image.
    Inside,
    /// The number of taps inside the image or its padding, which extends this many pixels past the last input pixel of
    /// each axis: ONNX's `count_include_pad`.
    Padded([usize; 3]),
}

impl Divisor {
    /// Returns the divisor of the window at an output pixel, at least 1; `inside` are its taps inside the image.
    fn count(self, window: &Window, output: [usize; 3], inside: &[Range<usize>; 3]) -> usize {
        let count = |axis: usize| match self {
            Self::Inside => inside[axis].len(),
            Self::Padded(after) => {
                let end = (window.input[axis] + window.pads[axis]).saturating_add(after[axis]);
                let remaining = end.saturating_sub(output[axis] * window.strides[axis]);
                remaining.div_ceil(window.dilations[axis]).min(window.kernel[axis])
            }
        };
        (count(0) * count(1) * count(2)).max(1)
    }
}

/// The checked arguments of a pooling: the window, the channels, and the output rows.
#[derive(Clone, Copy)]
struct Job<'a> {
    window: &'a Window,
    channels: usize,
    x_stride: usize,
    rows: (usize, usize),
    y_stride: usize,
}

impl<'a> Job<'a> {
    /// Checks everything that the loops rely on; `None` if there is nothing to do.
    fn new<T>(
        window: &'a Window,
        channels: usize,
        x: &Image<'_, T>,
        rows: Range<usize>,
        y_len: usize,
        y_stride: usize,
    ) -> Option<Self> {
        assert!(bounds::is_sound(window), "positions that `usize` holds, and dilations");
        assert!(window.taps().is_some(), "taps that `usize` holds");
        assert!(bounds::rows(window).is_some_and(|all| rows.end <= all), "rows of the window");
        let pixels = window.input_len();
        assert!(bounds::holds(x.data.len(), pixels, x.stride, channels), "an input of its pixels");
        let pixels = rows.len().checked_mul(window.output[2]);
        assert!(bounds::holds(y_len, pixels, y_stride, channels), "an output of its pixels");
        let has_work = !rows.is_empty() && window.output[2] > 0 && channels > 0;
        let rows = (rows.start, rows.end);
        has_work.then_some(Self { window, channels, x_stride: x.stride, rows, y_stride })
    }

    /// Returns, for the window at an output pixel, the index of the first element of the first tap inside the image (0
    /// without such a tap), and the strides between taps along each axis.
    fn first_tap(&self, output: [usize; 3], taps: &[Range<usize>; 3]) -> (usize, [usize; 3]) {
        let window = self.window;
        if taps.iter().any(Range::is_empty) {
            return (0, [0; 3]);
        }
        let [_, height, width] = window.input;
        let [plane, row, col] =
            [0, 1, 2].map(|axis| bounds::pixel(window, axis, output[axis], taps[axis].start));
        let [planes, rows, cols] = window.dilations;
        let first_element = ((plane * height + row) * width + col) * self.x_stride;
        // The stride along an axis with a single tap does not matter, so it may wrap around.
        let row = width.wrapping_mul(self.x_stride);
        let plane = height.wrapping_mul(row);
        let steps = [planes.wrapping_mul(plane), rows.wrapping_mul(row)];
        (first_element, [steps[0], steps[1], cols.wrapping_mul(self.x_stride)])
    }

    /// Returns, for an output row, its plane and its row within the plane, and the taps inside the image along the
    /// first two axes, which all windows of the row share.
    fn row(&self, row: usize) -> ([usize; 2], [Range<usize>; 3]) {
        let height = self.window.output[1];
        let output = [row / height, row % height];
        (
            output,
            [
                bounds::inside(self.window, 0, output[0]),
                bounds::inside(self.window, 1, output[1]),
                0..0,
            ],
        )
    }

    /// Returns the taps inside the image along the row, for the window at an output column.
    fn taps_along_row(&self, col: usize) -> Range<usize> {
        bounds::inside(self.window, 2, col)
    }
}
