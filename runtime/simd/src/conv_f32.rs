//! `f32` convolution without im2col: matrix products whose rows are gathered through a table (Dukhan, "The Indirect
//! Convolution Algorithm", 2019).
//!
//! Images are NHWC: pixels of `groups * channels` elements, and `lda` elements from one pixel to the next. Each image
//! of a batch is a call. A [`Plan`] is created once per shape and holds sizes only; the caller provides memory for its
//! table and its packed weights, which are filled once. A call computes any range of output pixels, so that several
//! threads can share an image. Bias, residual and activation are applied while an output tile is in registers.
//! [`Transposed`] handles transposed convolutions.
//!
//! Padding is skipped where possible. It is therefore unspecified whether an infinite or NaN weight is multiplied by
//! the zeros of the padding, which would give NaN.

mod bf16;
mod pack;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod plan;
#[cfg(test)]
mod tests;
mod transposed;

pub use pack::Strides;
pub use plan::{Algorithm, Plan};
pub use transposed::Transposed;

use crate::indirect::Window;

/// The sizes of the convolution of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The window.
    pub window: Window,
    /// Input channels per group.
    pub channels: usize,
    /// Output channels per group.
    pub outputs: usize,
    /// Number of groups; each maps its own input channels to its own output channels.
    pub groups: usize,
}
