//! Hyperbolic functions and their inverses, by `expm1` and `log1p`, which are accurate for small arguments.

use crate::isa::Simd;

/// Above this, the smaller exponential is below the rounding error of the larger one.
const FAR: f32 = 20.0;

/// Above this, `x^2` and `x^2 + 1` have the same root.
const LARGE: f32 = 8192.0;

/// Computes `sinh` of every lane.
#[inline(always)]
pub(in crate::isa) fn sinh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (size, half) = (simd.abs(x), simd.splat(0.5));
    let e = simd.expm1(size);
    let near = simd.add(e, simd.div(e, simd.add(e, simd.splat(1.0))));
    simd.with_sign(far_or(simd, size, simd.mul(half, near)), x)
}

/// Computes `cosh` of every lane.
#[inline(always)]
pub(in crate::isa) fn cosh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (size, half) = (simd.abs(x), simd.splat(0.5));
    let e = simd.exp(size);
    far_or(simd, size, simd.mul(half, simd.add(e, simd.div(simd.splat(1.0), e))))
}

/// Computes half the exponential of a large `size` as two factors, since it may be finite where the exponential
/// overflows; `near` elsewhere.
#[inline(always)]
fn far_or<S: Simd>(simd: S, size: S::F, near: S::F) -> S::F {
    let half = simd.splat(0.5);
    let root = simd.exp(simd.mul(half, size));
    let far = simd.mul(simd.mul(half, root), root);
    simd.select(simd.lt(simd.splat(FAR), size), far, near)
}

/// Computes `asinh` of every lane.
#[inline(always)]
pub(in crate::isa) fn asinh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (size, one) = (simd.abs(x), simd.splat(1.0));
    let square = simd.mul(size, size);
    let root = simd.sqrt(simd.add(square, one));
    let near = simd.log1p(simd.add(size, simd.div(square, simd.add(one, root))));
    simd.with_sign(log_of_double_or(simd, size, near), x)
}

/// Computes `acosh` of every lane; NaN below 1.
#[inline(always)]
pub(in crate::isa) fn acosh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    let rest = simd.sub(x, one);
    let root = simd.sqrt(simd.fma(rest, rest, simd.add(rest, rest)));
    let y = log_of_double_or(simd, x, simd.log1p(simd.add(rest, root)));
    simd.select(simd.le(one, x), y, simd.splat(f32::NAN))
}

/// Computes `log(2 x)` where `x` is large; `near` elsewhere.
#[inline(always)]
fn log_of_double_or<S: Simd>(simd: S, x: S::F, near: S::F) -> S::F {
    let far = simd.add(simd.log(x), simd.splat(std::f32::consts::LN_2));
    simd.select(simd.lt(simd.splat(LARGE), x), far, near)
}

/// Computes `atanh` of every lane; NaN outside -1..=1.
#[inline(always)]
pub(in crate::isa) fn atanh_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let size = simd.abs(x);
    let quotient = simd.div(simd.add(size, size), simd.sub(simd.splat(1.0), size));
    simd.with_sign(simd.mul(simd.splat(0.5), simd.log1p(quotient)), x)
}
