//! `tanh` as `e / (e + 2)` with `e = exp(2x) - 1`, which is accurate for small arguments.

use super::exp::exp_less_one;
use crate::isa::Simd;

/// Computes `tanh` of every lane, without tables.
#[inline(always)]
pub(in crate::isa) fn tanh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    // From 9.02 on the result rounds to 1.
    let size = simd.min(simd.splat(10.0), simd.abs(x));
    let e = exp_less_one(simd, simd.add(size, size));
    simd.with_sign(simd.div(e, simd.add(e, simd.splat(2.0))), x)
}
