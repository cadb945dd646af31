//! Compute primitives at the machine's limit: pure functions over slices, without allocation.
//!
//! Each primitive is a folder, with kernels in portable Rust, AVX2 and AVX-512: written by hand where that is faster,
//! else once over the trait [`Simd`]. [`isa()`] selects the kernels once per process. [`formula`] has drivers for
//! custom formulas. The crate has no knowledge of operators, tensors or the host.
//!
//! Functions are safe for slices of any length. Each function documents how it treats slices that do not fit each
//! other: with an error, a panic, or by processing the common part.
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
pub mod fft;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
pub mod formula;
pub mod gemm_bf16;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
pub mod gemm_blocks;
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
pub use formula::{
    Compare2, Fold, Map1, Map2, Map3, Operand, compare2, fold, fold_columns, fold_rows, map1,
    map1_in_place, map2, map2_in_place, map2_onto, map3, map3_in_place,
};
pub use isa::{Isa, Simd, isa};
pub use peak::{peak_bf16, peak_flops, peak_ops8};
