//! `tanh` as `e / (e + 2)` with `e = exp(2 |x|) - 1`, which is accurate for small arguments, and the sign of `x`.

use super::exp::exp_less_one;
use crate::isa::Simd;

/// Computes `tanh` of every lane.
#[inline(always)]
pub(in crate::isa) fn tanh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    // From 9.02 on the result rounds to 1.
    let magnitude = simd.min(simd.splat(10.0), simd.abs(x));
    let e = exp_less_one(simd, simd.add(magnitude, magnitude));
    simd.with_sign(simd.div(e, simd.add(e, simd.splat(2.0))), x)
}
