//! Elementary functions of `f32` slices.
//!
//! Every function is a formula over [`Simd`], compiled for every instruction set; AVX-512 has different formulas for
//! functions that are faster with a table in registers. NaN, infinities, signed zeros and denormals give the same
//! results as the `f64` functions, rounded. The documented error holds for all of `f32` and every instruction set; its
//! unit is the ulp, the distance between neighbouring `f32` at the exact result. No function allocates. Slices of
//! different lengths are a bug of the caller: builds with debug assertions panic.

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

/// Defines, for each function: one for two slices, one in place, and the type of its formula.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $in_place:ident, $formula:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Computes `y[i]` from `x[i]`; processes the shorter length if the slices differ.
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
            fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
                s.$name(x)
            }
        }
    )*};
}

functions! {
    /// The exponential function, within 1.1 ulp.
    exp, exp_in_place, Exp;
    /// The natural logarithm, within 1 ulp; NaN for negative values.
    log, log_in_place, Log;
    /// The hyperbolic tangent, within 2.5 ulp.
    tanh, tanh_in_place, Tanh;
    /// `1 / (1 + exp(-x))`, within 2.5 ulp.
    sigmoid, sigmoid_in_place, Sigmoid;
    /// The error function, within 1.2 ulp.
    erf, erf_in_place, Erf;
    /// The sine of radians, within 2 ulp for arguments of any size; NaN for infinities.
    sin, sin_in_place, Sin;
    /// The cosine of radians, within 2 ulp for arguments of any size; NaN for infinities.
    cos, cos_in_place, Cos;
    /// `1 / sqrt(x)`, within 1.5 ulp; infinite for zeros, with their sign, and NaN for negative values.
    rsqrt, rsqrt_in_place, Rsqrt;
    /// `exp(x) - 1`, within 2 ulp.
    expm1, expm1_in_place, Expm1;
    /// `log(1 + x)`, within 2 ulp; NaN below -1.
    log1p, log1p_in_place, Log1p;
    /// The tangent of radians, within 4 ulp for arguments of any size; NaN for infinities.
    tan, tan_in_place, Tan;
    /// The inverse sine, within 3 ulp; NaN outside -1..=1.
    asin, asin_in_place, Asin;
    /// The inverse cosine, within 3 ulp; NaN outside -1..=1.
    acos, acos_in_place, Acos;
    /// The inverse tangent, within 3 ulp.
    atan, atan_in_place, Atan;
    /// The hyperbolic sine, within 4 ulp.
    sinh, sinh_in_place, Sinh;
    /// The hyperbolic cosine, within 4 ulp.
    cosh, cosh_in_place, Cosh;
    /// The inverse hyperbolic sine, within 4 ulp.
    asinh, asinh_in_place, Asinh;
    /// The inverse hyperbolic cosine, within 4 ulp; NaN below 1.
    acosh, acosh_in_place, Acosh;
    /// The inverse hyperbolic tangent, within 4 ulp; NaN outside -1..=1.
    atanh, atanh_in_place, Atanh;
}
