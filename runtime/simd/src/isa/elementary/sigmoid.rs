//! `1 / (1 + exp(-x))`, computed with the exponential of `-|x|`, which cannot overflow.

use crate::isa::Simd;

/// Computes `sigmoid` of every lane.
#[inline(always)]
pub(in crate::isa) fn sigmoid_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    let minus = simd.float(simd.or(simd.bits(x), simd.splat_i(i32::MIN)));
    let e = simd.exp(minus);
    let above = simd.select(simd.lt(x, simd.splat(0.0)), e, one);
    simd.div(above, simd.add(one, e))
}
