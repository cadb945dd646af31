//! `exp`: Cody and Waite's reduction by multiples of `ln 2`, then Cephes' polynomial (`expf.c`).

use crate::isa::Simd;

/// The leading 10 bits of `ln 2`, so that its product with an integer of up to 14 bits is exact.
const LN2_HIGH: f32 = 0.693_359_4;
/// `ln 2 - LN2_HIGH`.
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Computes `exp` of every lane.
#[inline(always)]
pub(in crate::isa) fn exp_of<S: Simd>(simd: S, x: S::F) -> S::F {
    // Outside this range the result is infinite or 0. `min` and `max` return their second operand for NaN.
    let x = simd.min(simd.splat(89.0), simd.max(simd.splat(-104.0), x));
    let (n, p) = reduced(simd, x);
    simd.scale(simd.add(p, simd.splat(1.0)), n)
}

/// Computes `exp(x) - 1` for `x` in 0..=87, without the checks of [`expm1_of`].
#[inline(always)]
pub(in crate::isa) fn exp_less_one<S: Simd>(simd: S, x: S::F) -> S::F {
    let (n, p) = reduced(simd, x);
    let power = simd.power(simd.to_int(n));
    simd.fma(p, power, simd.sub(power, simd.splat(1.0)))
}

/// Computes `exp(x) - 1` of every lane.
#[inline(always)]
pub(in crate::isa) fn expm1_of<S: Simd>(simd: S, x: S::F) -> S::F {
    // Outside this range the result is infinite or rounds to -1. `min` and `max` return their second operand for NaN.
    let clamped = simd.min(simd.splat(89.0), simd.max(simd.splat(-18.0), x));
    let (n, p) = reduced(simd, clamped);
    // `2^(n - 1)`, since `2^n` may overflow where the result does not. `half` is half the result.
    let half_power = simd.power(simd.to_int(simd.sub(n, simd.splat(1.0))));
    let half = simd.fma(p, half_power, simd.sub(half_power, simd.splat(0.5)));
    let is_tiny = simd.lt(simd.abs(x), simd.splat(1e-8));
    simd.select(is_tiny, x, simd.add(half, half))
}

/// Returns `n` and `exp(r) - 1`, where `x = n ln 2 + r`, with `n` whole and `r` in -0.35..=0.35.
#[inline(always)]
fn reduced<S: Simd>(simd: S, x: S::F) -> (S::F, S::F) {
    let n = simd.round_small(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.fnma(n, simd.splat(LN2_HIGH), x);
    let r = simd.fnma(n, simd.splat(LN2_LOW), r);
    let p = simd.poly(
        r,
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
    );
    (n, simd.fma(simd.mul(r, r), p, r))
}
