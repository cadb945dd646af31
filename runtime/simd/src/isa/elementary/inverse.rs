//! The inverse trigonometric functions `asin`, `acos` and `atan`: reduction to small arguments, then the polynomials of
//! the Cephes library (`asinf.c`, `atanf.c`).

use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use crate::isa::Simd;

/// Computes `asin` of every lane; NaN outside -1..=1.
#[inline(always)]
pub(in crate::isa) fn asin_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let magnitude = simd.abs(x);
    let (angle, is_large) = small_angle(simd, magnitude);
    let large = simd.sub(simd.splat(FRAC_PI_2), simd.add(angle, angle));
    simd.with_sign(simd.select(is_large, large, angle), x)
}

/// Computes `acos` of every lane; NaN outside -1..=1.
#[inline(always)]
pub(in crate::isa) fn acos_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let zero = simd.splat(0.0);
    let (angle, is_large) = small_angle(simd, simd.abs(x));
    let (double, is_below) = (simd.add(angle, angle), simd.lt(x, zero));
    let large = simd.select(is_below, simd.sub(simd.splat(PI), double), double);
    simd.select(is_large, large, simd.sub(simd.splat(FRAC_PI_2), simd.with_sign(angle, x)))
}

/// Returns `asin(size)` for a `magnitude` up to 1/2, and `asin(sqrt((1 - size) / 2))`, half the complementary angle,
/// above. The mask is true for lanes above.
#[inline(always)]
fn small_angle<S: Simd>(simd: S, magnitude: S::F) -> (S::F, S::M) {
    let half = simd.splat(0.5);
    let is_large = simd.lt(half, magnitude);
    let half_complement = simd.mul(half, simd.sub(simd.splat(1.0), magnitude));
    let square = simd.select(is_large, half_complement, simd.mul(magnitude, magnitude));
    let reduced = simd.select(is_large, simd.sqrt(half_complement), magnitude);
    let p = simd
        .poly(square, [4.216_32e-2, 2.418_131e-2, 4.547_002_6e-2, 7.495_300_3e-2, 1.666_675_2e-1]);
    (simd.fma(simd.mul(p, square), reduced, reduced), is_large)
}

/// Computes `atan` of every lane: with the argument `-1 / x` and the offset `pi / 2` for large `|x|`, with `(x - 1) /
/// (x + 1)` and `pi / 4` for medium ones.
#[inline(always)]
pub(in crate::isa) fn atan_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (magnitude, one) = (simd.abs(x), simd.splat(1.0));
    // tan(3 pi / 8) and tan(pi / 8).
    let is_large = simd.lt(simd.splat(2.414_213_6), magnitude);
    let is_small = simd.le(magnitude, simd.splat(0.414_213_57));
    let numerator = simd.select(is_large, simd.splat(-1.0), simd.sub(magnitude, one));
    let denominator = simd.select(is_large, magnitude, simd.add(magnitude, one));
    let reduced = simd.select(is_small, magnitude, simd.div(numerator, denominator));
    let offset = simd.select(is_large, simd.splat(FRAC_PI_2), simd.splat(FRAC_PI_4));
    let offset = simd.select(is_small, simd.splat(0.0), offset);
    let square = simd.mul(reduced, reduced);
    let p = simd.poly(square, [8.053_744_6e-2, -1.387_768_5e-1, 1.997_771_1e-1, -3.333_295e-1]);
    let y = simd.fma(simd.mul(p, square), reduced, reduced);
    simd.with_sign(simd.add(offset, y), x)
}
