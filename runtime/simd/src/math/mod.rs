//! Elementary functions of `f32` slices.
//!
//! Every function is written once, over `vector::Simd`, and compiled for every instruction set; those
//! that tables in registers make shorter have a form of their own for AVX-512.
//! NaNs, infinities, signed zeros and subnormal numbers come out as the functions of `f64`, rounded,
//! would have them. The error that a function states, in units in the last place of the exact
//! result, holds over all of `f32` and for every instruction set. No function allocates. Slices of two
//! lengths are the caller's fault, over which builds with debug assertions panic.

#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod activation;
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
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod erf;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod exp;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod log;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod map;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; an address and the access to it are one step"
)]
mod portable;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod rsqrt;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod sigmoid;
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    reason = "takes on the features of its caller; look-ups of one table"
)]
#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "as its neighbours"))]
mod tables;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod tanh;
#[cfg(test)]
mod tests;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod trig;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
pub(super) mod vector;

pub use activation::Activation;
pub(super) use activation::Curve;

use super::isa;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $in_place:ident: $op:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// `y[i]` of `x[i]`; the slices are of one length, or the shorter one's counts.
        #[inline]
        pub fn $name(x: &[f32], y: &mut [f32]) {
            map::map(isa(), $op, x, y);
        }

        #[doc = concat!("As `", stringify!($name), "`, in place.")]
        #[inline]
        pub fn $in_place(x: &mut [f32]) {
            map::map_in_place(isa(), $op, x);
        }
    )*};
}

functions! {
    /// The exponential function, to 1.1 ulp.
    exp, exp_in_place: exp::Exp;
    /// The natural logarithm, to 1 ulp; a NaN for negative numbers.
    log, log_in_place: log::Log;
    /// The hyperbolic tangent, to 2.5 ulp.
    tanh, tanh_in_place: tanh::Tanh;
    /// `1 / (1 + exp(-x))`, to 2.5 ulp.
    sigmoid, sigmoid_in_place: sigmoid::Sigmoid;
    /// The error function, to 1.2 ulp.
    erf, erf_in_place: erf::Erf;
    /// The sine of radians, to 2 ulp however large they are; a NaN for infinities.
    sin, sin_in_place: trig::Sin;
    /// The cosine of radians, to 2 ulp however large they are; a NaN for infinities.
    cos, cos_in_place: trig::Cos;
    /// `1 / sqrt(x)`, to 1.5 ulp; infinite for zeros, with their sign, and a NaN for negative numbers.
    rsqrt, rsqrt_in_place: rsqrt::Rsqrt;
}
