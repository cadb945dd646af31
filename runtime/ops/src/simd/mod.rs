//! Compute primitives at the machine's limit: pure functions over slices, no allocation.
//!
//! One folder per primitive, with its portable, AVX2 and AVX-512 forms: written by hand where that is
//! faster, else once over the trait of `math::vector`. Which form runs is decided once, by [`isa()`].
//! Nothing here knows operators, tensors or the host; element types are all that it takes from the
//! contract.

#![cfg_attr(not(test), expect(unsafe_code, reason = "vector instructions are chosen at run time"))]

pub mod conv_f32;
pub mod conv_u8;
pub mod depthwise;
pub mod gemm_f32;
pub mod gemm_u8;
#[cfg(test)]
mod guard;
pub mod indirect;
mod isa;
pub mod math;
mod peak;
pub mod pooling;
pub mod rows;
pub mod winograd;

pub use isa::{Isa, isa};
pub use peak::{peak_flops, peak_ops8};
