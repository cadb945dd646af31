//! Activation functions, which matrix products and convolutions apply to their sums before they store them.

use crate::isa::{Isa, SimdOp, Vector, dispatch};

/// An activation function. All of them propagate NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// The identity.
    #[default]
    None,
    /// `max(0, x)`.
    Relu,
    /// `min(max(0, x), 6)`.
    Relu6,
    /// `min(max(first, x), second)`.
    Clamp(f32, f32),
    /// `x / (1 + exp(-x))`, within 4 ulp or `3e-37`.
    Silu,
    /// `x / 2 (1 + erf(x / sqrt 2))`, within `3e-7 |x|`.
    Gelu,
}

/// An activation that needs the exponential function, unlike a clamp.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Curve {
    Silu,
    Gelu,
}

impl Activation {
    /// Returns the bounds of an activation that is a clamp.
    pub(crate) fn clamp(self) -> Option<(f32, f32)> {
        match self {
            Self::None | Self::Silu | Self::Gelu => None,
            Self::Relu => Some((0.0, f32::INFINITY)),
            Self::Relu6 => Some((0.0, 6.0)),
            Self::Clamp(low, high) => Some((low, high)),
        }
    }

    /// Returns the curve of an activation that is not a clamp.
    pub(crate) fn curve(self) -> Option<Curve> {
        match self {
            Self::None | Self::Relu | Self::Relu6 | Self::Clamp(..) => None,
            Self::Silu => Some(Curve::Silu),
            Self::Gelu => Some(Curve::Gelu),
        }
    }

    /// Applies the activation to every lane.
    #[inline(always)]
    pub(crate) fn apply<S: Vector>(self, simd: S, sums: &mut [S::F]) {
        if let Some((low, high)) = self.clamp() {
            let (low, high) = (simd.splat(low), simd.splat(high));
            for sum in sums {
                // `min` and `max` return their second operand for NaN.
                *sum = simd.min(high, simd.max(low, *sum));
            }
        } else if let Some(curve) = self.curve() {
            for sum in sums {
                *sum = curve.evaluate(simd, *sum);
            }
        }
    }
}

impl Curve {
    /// Evaluates the curve for every lane.
    #[inline(always)]
    pub(crate) fn evaluate<S: Vector>(self, simd: S, x: S::F) -> S::F {
        match self {
            Self::Silu => silu(simd, x),
            Self::Gelu => gelu(simd, x),
        }
    }

    /// Applies the curve to each element.
    pub(crate) fn apply(self, isa: Isa, values: &mut [f32]) {
        dispatch(isa, ApplyCurve { curve: self, values });
    }
}

struct ApplyCurve<'a> {
    curve: Curve,
    values: &'a mut [f32],
}

impl SimdOp for ApplyCurve<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        for values in self.values.chunks_mut(S::LANES) {
            let len = values.len();
            // SAFETY: the chunk has `len` values, at most a vector.
            unsafe {
                let x = simd.load_tail(values.as_ptr(), len, simd.splat(0.0));
                simd.store_tail(values.as_mut_ptr(), len, self.curve.evaluate(simd, x));
            }
        }
    }
}

#[inline(always)]
fn silu<S: Vector>(simd: S, x: S::F) -> S::F {
    let negative = simd.sub(simd.splat(0.0), x);
    simd.div(x, simd.add(simd.splat(1.0), simd.exp(negative)))
}

/// Computes GELU with formula 7.1.26 of Abramowitz and Stegun, "Handbook of Mathematical Functions". It approximates
/// `1 - erf`, so that results stay accurate where GELU is close to 0, for negative `x`.
#[inline(always)]
#[expect(clippy::excessive_precision, reason = "coefficients are as published")]
fn gelu<S: Vector>(simd: S, x: S::F) -> S::F {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    let z = simd.mul(simd.abs(x), simd.splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = simd.div(one, simd.fma(simd.splat(0.327_591_1), z, one));
    let sum =
        simd.poly(t, [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592]);
    let complement = simd.mul(simd.mul(sum, t), simd.exp(simd.fnma(z, z, zero)));
    let factor = simd.select(simd.lt(x, zero), complement, simd.sub(simd.splat(2.0), complement));
    simd.mul(simd.mul(simd.splat(0.5), x), factor)
}
