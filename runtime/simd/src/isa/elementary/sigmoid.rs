//! The logistic function `1 / (1 + exp(-x))`, computed with the exponential of `-|x|`, which cannot overflow: for
//! negative `x` it equals `exp(x) / (1 + exp(x))`.

use crate::isa::Simd;

/// Computes `sigmoid` of every lane.
#[inline(always)]
pub(in crate::isa) fn sigmoid_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    let negative_size = simd.float(simd.or(simd.bits(x), simd.splat_i(i32::MIN)));
    let power = simd.exp(negative_size);
    let numerator = simd.select(simd.lt(x, simd.splat(0.0)), power, one);
    simd.div(numerator, simd.add(one, power))
}
