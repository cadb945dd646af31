//! Depthwise convolution: each channel is filtered by its own kernel.
//!
//! Images are NHWC: a pixel is its channels, adjacent, and pixels lie a stride apart. Vectors run over
//! channels, so that neither windows nor strides shuffle lanes. Square kernels of 3 and 5 at strides 1
//! and 2, and 2 down and 1 across as in networks that read text, go along output rows in passes, with the sums of all windows that an input column is part of in
//! registers, or go tile by tile where caches do badly with that; every other window, and a multiplier,
//! run pixel by pixel over the taps in the image.
//!
//! A function computes output rows `rows` of one image: those of the window's second axis, for one
//! plane of the first axis after the other. A caller with several threads splits them, and a caller
//! with a batch takes its images one after the other. Nothing allocates.

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

/// What is convolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The kernel and where it goes.
    pub window: Window,
    /// Channels of the input.
    pub channels: usize,
    /// Output channels for each of them: those of input channel `c` are `c * multiplier` and the
    /// following.
    pub multiplier: usize,
}

impl Shape {
    /// Channels of the output; none if they are beyond what `usize` holds.
    pub fn outputs(&self) -> Option<usize> {
        self.channels.checked_mul(self.multiplier)
    }
}

/// An image of the input: its pixels in sequence, row-major over the spatial axes.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a, T> {
    /// A pixel's channels are adjacent.
    pub data: &'a [T],
    /// From a pixel to the next, in elements; at least the channels.
    pub stride: usize,
}
