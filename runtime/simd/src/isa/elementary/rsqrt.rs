//! The inverse square root, `1 / sqrt(x)`, rounded after the root and after the division.

use crate::isa::Simd;

/// Computes `1 / sqrt(x)` of every lane.
#[inline(always)]
pub(in crate::isa) fn rsqrt_of<S: Simd>(simd: S, x: S::F) -> S::F {
    simd.div(simd.splat(1.0), simd.sqrt(x))
}
