//! Depthwise convolution: each channel has its own filters.
//!
//! Images are NHWC: the channels of a pixel are contiguous, and pixels have a stride. Vectors run over channels, so
//! that neither windows nor strides need shuffles. A *strip* is as many channels as the widest vector has lanes; packed
//! weights are stored strip by strip.
//!
//! There are three algorithms. Kernels of 3x3 and 5x5 with strides 1 and 2 (and 2 down, 1 across, as in text
//! recognition) make passes along output rows (`row_pass`, `avx512`), which load each input column once and keep the
//! sums of all windows that contain it in registers. If these passes would conflict in the cache, 3x3 kernels are
//! computed tile by tile (`tile`). All other windows, and channel multipliers, are computed pixel by pixel over the
//! taps inside the image (`general`).
//!
//! A function computes output rows `rows` of one image: the rows of the window's second axis, counted over all planes
//! of the first axis. A caller with several threads divides them; a caller with a batch makes a call per image. Nothing
//! allocates.

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    clippy::needless_range_loop,
    reason = "an address and the access to it are one step; loops of constant counts, to be unrolled"
)]
mod avx512;
pub(super) mod bounds;
mod float;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod float_job;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod general;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod general_u8;
mod quantized;
mod quantized_job;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    clippy::needless_range_loop,
    reason = "takes on the features of its caller; loops of constant counts, to be unrolled"
)]
mod row_pass;
#[cfg(test)]
mod tests;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    clippy::needless_range_loop,
    reason = "takes on the features of its caller; loops of constant counts, to be unrolled"
)]
mod tile;

pub use crate::gemm_f32::Activation;
use crate::indirect::Window;
pub use float::{Weights, depthwise, pack, packed_len};
pub use quantized::{MAX_TAPS, Output, depthwise_u8, pack_u8, packed_len_u8};
pub use quantized_job::QuantizedWeights;

/// The sizes of a depthwise convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The kernel, with its strides and padding.
    pub window: Window,
    /// Input channels.
    pub channels: usize,
    /// Output channels per input channel: input channel `c` yields those from `c * multiplier` on.
    pub multiplier: usize,
}

impl Shape {
    /// Returns the output channels; `None` on overflow.
    pub fn outputs(&self) -> Option<usize> {
        self.channels.checked_mul(self.multiplier)
    }
}

/// An input image: pixels in row-major order over the spatial axes.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a, T> {
    /// The elements; the channels of a pixel are contiguous.
    pub data: &'a [T],
    /// Elements between pixels; at least the number of channels.
    pub stride: usize,
}
