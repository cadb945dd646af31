//! Convolutions of `f32` without im2col: matrix products whose rows are gathered by a table
//! (Dukhan, "The Indirect Convolution Algorithm", 2019).
//!
//! Images are NHWC: an image is pixels, `lda` elements apart, of `groups * channels` elements. Of a batch,
//! each image is a call. A [`Plan`] is made of a shape once; it holds numbers only. Its table and its packed
//! weights are memory that the caller lends, filled once. A call takes any range of output pixels, so that
//! several threads can share an image. Bias, residual and activation are applied while a tile of the
//! output is in registers. Padding is left out where it can be, so that whether weights that are not finite
//! meet its zeros is unspecified. [`Transposed`] is the same for transposed convolutions.

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

/// A convolution of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Where the taps lie.
    pub window: Window,
    /// Input channels of each group.
    pub channels: usize,
    /// Output channels of each group.
    pub outputs: usize,
    /// Groups: each takes its own input channels to its own output channels.
    pub groups: usize,
}
