//! Primitives over rows of a matrix and other contiguous elements: softmax, layer norm, local response norm,
//! reductions, transposes, conversions and table look-ups. No function allocates. Slices that do not fit each other are
//! a bug of the caller: builds with debug assertions panic; others process the common rows, or nothing.

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod byte_sums;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod combine;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod convert;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod layer_norm;
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "an address and the access to it are one step"
)]
mod lookup;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod lrn;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod quantize;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod reduce;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod softmax;
#[cfg(test)]
mod tests;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod transpose;

pub use byte_sums::{ByteSums, requantize};
pub use combine::{Arithmetic, Operand, combine};
pub use convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use layer_norm::layer_norm;
pub use lookup::lookup;
pub use lrn::{Lrn, lrn};
pub use quantize::{Quantized, bits, dequantize, quantize};
pub use reduce::{max, min, row_maxima, row_minima, row_sums, sum};
pub use softmax::{Running, multiply_rows, softmax, softmax_block};
pub use transpose::{transpose, transpose_grain, transpose_part};
