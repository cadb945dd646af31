//! Elementary functions of `f32` slices.
//!
//! Every function is a formula over [`Simd`], compiled for every instruction set; those that tables in
//! registers make shorter have another for AVX-512.
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
#[cfg(test)]
mod tests;

pub use activation::Activation;
pub(crate) use activation::Curve;

use crate::formula::{Map1, map1, map1_in_place};
use crate::isa::Simd;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $in_place:ident, $formula:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `y[i]` of `x[i]`; the slices are of one length, or the shorter one's counts.
        #[inline]
        pub fn $name(x: &[f32], y: &mut [f32]) {
            map1($formula, x, y);
        }

        #[doc = concat!("As [`", stringify!($name), "`], in place.")]
        #[inline]
        pub fn $in_place(x: &mut [f32]) {
            map1_in_place($formula, x);
        }

        #[doc = concat!("The formula of [`", stringify!($name), "()`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $formula;

        impl Map1 for $formula {
            #[inline(always)]
            fn of<S: Simd>(self, s: S, x: S::F) -> S::F {
                s.$name(x)
            }
        }
    )*};
}

functions! {
    /// The exponential function, to 1.1 ulp.
    exp, exp_in_place, Exp;
    /// The natural logarithm, to 1 ulp; a NaN for negative numbers.
    log, log_in_place, Log;
    /// The hyperbolic tangent, to 2.5 ulp.
    tanh, tanh_in_place, Tanh;
    /// `1 / (1 + exp(-x))`, to 2.5 ulp.
    sigmoid, sigmoid_in_place, Sigmoid;
    /// The error function, to 1.2 ulp.
    erf, erf_in_place, Erf;
    /// The sine of radians, to 2 ulp however large they are; a NaN for infinities.
    sin, sin_in_place, Sin;
    /// The cosine of radians, to 2 ulp however large they are; a NaN for infinities.
    cos, cos_in_place, Cos;
    /// `1 / sqrt(x)`, to 1.5 ulp; infinite for zeros, with their sign, and a NaN for negative numbers.
    rsqrt, rsqrt_in_place, Rsqrt;
    /// `exp(x) - 1`, to 2 ulp.
    expm1, expm1_in_place, Expm1;
    /// `log(1 + x)`, to 2 ulp; a NaN below -1.
    log1p, log1p_in_place, Log1p;
    /// The tangent of radians, to 4 ulp however large they are; a NaN for infinities.
    tan, tan_in_place, Tan;
    /// The inverse sine, to 3 ulp; a NaN beyond 1.
    asin, asin_in_place, Asin;
    /// The inverse cosine, to 3 ulp; a NaN beyond 1.
    acos, acos_in_place, Acos;
    /// The inverse tangent, to 3 ulp.
    atan, atan_in_place, Atan;
    /// The hyperbolic sine, to 4 ulp.
    sinh, sinh_in_place, Sinh;
    /// The hyperbolic cosine, to 4 ulp.
    cosh, cosh_in_place, Cosh;
    /// The inverse hyperbolic sine, to 4 ulp.
    asinh, asinh_in_place, Asinh;
    /// The inverse hyperbolic cosine, to 4 ulp; a NaN below 1.
    acosh, acosh_in_place, Acosh;
    /// The inverse hyperbolic tangent, to 4 ulp; a NaN beyond 1.
    atanh, atanh_in_place, Atanh;
}
