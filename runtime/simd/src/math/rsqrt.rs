//! `1 / sqrt(x)`, both steps rounded.

use super::map::Unary;
use super::vector::Simd;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rsqrt;

impl Unary for Rsqrt {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
        simd.rsqrt(x)
    }
}

/// `rsqrt` of every lane, without tables.
#[inline(always)]
pub(super) fn rsqrt_of<S: Simd>(simd: S, x: S::F) -> S::F {
    simd.div(simd.splat(1.0), simd.sqrt(x))
}
