//! `1 / sqrt(x)`, rounded after the root and after the division.

use crate::isa::Simd;

/// Computes `rsqrt` of every lane, without tables.
#[inline(always)]
pub(in crate::isa) fn rsqrt_of<S: Simd>(simd: S, x: S::F) -> S::F {
    simd.div(simd.splat(1.0), simd.sqrt(x))
}
