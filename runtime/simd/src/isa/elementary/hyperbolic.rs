//! Hyperbolic functions and their inverses, computed with `expm1` and `log1p`, which are accurate for small arguments.

use crate::isa::Simd;

/// Above this, the smaller exponential is below the rounding error of the larger one.
const FAR: f32 = 20.0;

/// Above this, `x^2` and `x^2 + 1` have the same root.
const LARGE: f32 = 8192.0;

/// Computes `sinh` of every lane.
#[inline(always)]
pub(in crate::isa) fn sinh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (magnitude, half) = (simd.abs(x), simd.splat(0.5));
    let power = simd.expm1(magnitude);
    let near = simd.add(power, simd.div(power, simd.add(power, simd.splat(1.0))));
    simd.with_sign(far_or(simd, magnitude, simd.mul(half, near)), x)
}

/// Computes `cosh` of every lane.
#[inline(always)]
pub(in crate::isa) fn cosh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (magnitude, half) = (simd.abs(x), simd.splat(0.5));
    let power = simd.exp(magnitude);
    far_or(simd, magnitude, simd.mul(half, simd.add(power, simd.div(simd.splat(1.0), power))))
}

/// Returns `exp(size) / 2` for a `magnitude` above [`FAR`], else `near`. Multiplies two factors `exp(size / 2)`,
/// because `exp(size)` may overflow where half of it does not.
#[inline(always)]
fn far_or<S: Simd>(simd: S, magnitude: S::F, near: S::F) -> S::F {
    let half = simd.splat(0.5);
    let root = simd.exp(simd.mul(half, magnitude));
    let far = simd.mul(simd.mul(half, root), root);
    simd.select(simd.lt(simd.splat(FAR), magnitude), far, near)
}

/// Computes `asinh` of every lane.
#[inline(always)]
pub(in crate::isa) fn asinh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (magnitude, one) = (simd.abs(x), simd.splat(1.0));
    let square = simd.mul(magnitude, magnitude);
    let root = simd.sqrt(simd.add(square, one));
    let near = simd.log1p(simd.add(magnitude, simd.div(square, simd.add(one, root))));
    simd.with_sign(log_of_double_or(simd, magnitude, near), x)
}

/// Computes `acosh` of every lane; NaN below 1.
#[inline(always)]
pub(in crate::isa) fn acosh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    let excess = simd.sub(x, one);
    let root = simd.sqrt(simd.fma(excess, excess, simd.add(excess, excess)));
    let y = log_of_double_or(simd, x, simd.log1p(simd.add(excess, root)));
    simd.select(simd.le(one, x), y, simd.splat(f32::NAN))
}

/// Returns `log(2 x)` for an `x` above [`LARGE`], else `near`.
#[inline(always)]
fn log_of_double_or<S: Simd>(simd: S, x: S::F, near: S::F) -> S::F {
    let far = simd.add(simd.log(x), simd.splat(std::f32::consts::LN_2));
    simd.select(simd.lt(simd.splat(LARGE), x), far, near)
}

/// Computes `atanh` of every lane; NaN outside -1..=1.
#[inline(always)]
pub(in crate::isa) fn atanh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let magnitude = simd.abs(x);
    let quotient = simd.div(simd.add(magnitude, magnitude), simd.sub(simd.splat(1.0), magnitude));
    simd.with_sign(simd.mul(simd.splat(0.5), simd.log1p(quotient)), x)
}
