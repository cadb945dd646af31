//! `asin`, `acos` and `atan`: reduction to small arguments, then Cephes' polynomials (`asinf.c`, `atanf.c`).

use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use crate::isa::Simd;

/// Computes `asin` of every lane; NaN outside -1..=1.
#[inline(always)]
pub(in crate::isa) fn asin_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let size = simd.abs(x);
    let (y, is_large) = small_angle(simd, size);
    let large = simd.sub(simd.splat(FRAC_PI_2), simd.add(y, y));
    simd.with_sign(simd.select(is_large, large, y), x)
}

/// Computes `acos` of every lane; NaN outside -1..=1.
#[inline(always)]
pub(in crate::isa) fn acos_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let zero = simd.splat(0.0);
    let (y, is_large) = small_angle(simd, simd.abs(x));
    let (double, is_below) = (simd.add(y, y), simd.lt(x, zero));
    let large = simd.select(is_below, simd.sub(simd.splat(PI), double), double);
    simd.select(is_large, large, simd.sub(simd.splat(FRAC_PI_2), simd.with_sign(y, x)))
}

/// Computes `asin` of `size` up to 1/2. Above, returns `asin(sqrt((1 - size) / 2))`, half the complementary angle, and
/// true in the mask.
#[inline(always)]
fn small_angle<S: Simd>(simd: S, size: S::F) -> (S::F, S::M) {
    let half = simd.splat(0.5);
    let is_large = simd.lt(half, size);
    let rest = simd.mul(half, simd.sub(simd.splat(1.0), size));
    let square = simd.select(is_large, rest, simd.mul(size, size));
    let r = simd.select(is_large, simd.sqrt(rest), size);
    let p = simd
        .poly(square, [4.216_32e-2, 2.418_131e-2, 4.547_002_6e-2, 7.495_300_3e-2, 1.666_675_2e-1]);
    (simd.fma(simd.mul(p, square), r, r), is_large)
}

/// Computes `atan` of every lane.
#[inline(always)]
pub(in crate::isa) fn atan_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (size, one) = (simd.abs(x), simd.splat(1.0));
    // tan(3 pi / 8) and tan(pi / 8).
    let is_far = simd.lt(simd.splat(2.414_213_6), size);
    let is_near = simd.le(size, simd.splat(0.414_213_57));
    let above = simd.select(is_far, simd.splat(-1.0), simd.sub(size, one));
    let below = simd.select(is_far, size, simd.add(size, one));
    let r = simd.select(is_near, size, simd.div(above, below));
    let start = simd.select(is_far, simd.splat(FRAC_PI_2), simd.splat(FRAC_PI_4));
    let start = simd.select(is_near, simd.splat(0.0), start);
    let square = simd.mul(r, r);
    let p = simd.poly(square, [8.053_744_6e-2, -1.387_768_5e-1, 1.997_771_1e-1, -3.333_295e-1]);
    let y = simd.fma(simd.mul(p, square), r, r);
    simd.with_sign(simd.add(start, y), x)
}
