//! Instruction sets: detection and selection, the vector operations of each, and dispatch of operations that are
//! written once for all of them.
//!
//! `set` detects the machine's sets. A token (`token`) is a value that proves that the machine has a set; the traits
//! `Simd` and `Vector` are implemented for tokens, by `portable`, `avx2` and `avx512`. `dispatch` creates the token and
//! passes it to an operation.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod amx {
    /// Only Linux is supported.
    pub(super) fn is_granted() -> bool {
        false
    }
}
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "one-line wrappers of instructions"
)]
#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "dozens of instructions"))]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "one-line wrappers of instructions"
)]
#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "dozens of instructions"))]
mod avx512;
mod dispatch;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod elementary;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod portable;
mod set;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod simd;
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; both parts of one table are loaded together"
)]
#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "as its neighbours"))]
mod tables;
mod token;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod vector;

pub use set::{Isa, isa};
pub use simd::Simd;

pub(crate) use dispatch::{SimdOp, dispatch};
pub(crate) use set::highest;
pub(crate) use vector::Vector;
