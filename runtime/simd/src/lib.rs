//! Compute primitives at the machine's limit: pure functions over slices, no allocation.
//!
//! One folder per primitive, with its portable, AVX2 and AVX-512 forms: written by hand where that is
//! faster, else once over the trait of `math::vector`. Which form runs is decided once, by [`isa()`].
//! Nothing here knows operators, tensors or the host, and nothing depends on them.
//!
//! Functions are safe whatever slices they are given: what does not fit computes the part that all slices
//! have, or nothing, and panics in builds with debug assertions.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "kernel arithmetic"
)]
#![expect(
    clippy::many_single_char_names,
    reason = "formulas keep the letters of the specification"
)]

mod bits;
pub mod conv_f32;
pub mod conv_u8;
pub mod depthwise;
pub mod gemm_f32;
pub mod gemm_u8;
pub mod indirect;
mod isa;
pub mod math;
mod peak;
pub mod pooling;
pub mod rows;
#[cfg(test)]
mod testing;
pub mod winograd;

pub use bits::Bits;
pub use isa::{Isa, isa};
pub use peak::{peak_flops, peak_ops8};
