//! Functions that f64 lacks, and lane functions that several operators share.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use udo_simd::{Map2, Simd};

/// From this `x` on, the continued fraction converges faster than the series.
const FRACTION_START: f64 = 3.0;

/// Returns the error function, with an error of a few units in the last place.
pub(crate) fn erf(x: f64) -> f64 {
    if x.abs() < FRACTION_START {
        erf_series(x)
    } else {
        (1.0 - erfc_fraction(x.abs())).copysign(x)
    }
}

/// Returns `1 - erf(x)`, accurate for large `x`.
pub(crate) fn erfc(x: f64) -> f64 {
    if x < FRACTION_START { 1.0 - erf(x) } else { erfc_fraction(x) }
}

/// Returns `x * Phi(x)`, with `Phi` the normal distribution function.
pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * erfc(-x * FRAC_1_SQRT_2)
}

/// Returns [`gelu`] of each lane of a vector, as `x / 2 * (1 + erf(x / sqrt(2)))`.
#[inline(always)]
pub(crate) fn gelu_lanes<S: Simd>(s: S, x: S::F) -> S::F {
    let erf = s.erf(s.mul(x, s.splat(FRAC_1_SQRT_2 as f32)));
    s.mul(s.mul(s.splat(0.5), x), s.add(s.splat(1.0), erf))
}

/// `y + weight * x`.
#[derive(Clone, Copy)]
pub(crate) struct PlusWeighed(pub(crate) f32);

impl Map2 for PlusWeighed {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, y: S::F, x: S::F) -> S::F {
        s.fma(s.splat(self.0), x, y)
    }
}

/// `x / (1 + exp(-alpha x))` of each lane.
#[inline(always)]
pub(crate) fn swish_lanes<S: Simd>(s: S, x: S::F, alpha: f32) -> S::F {
    s.mul(x, s.sigmoid(s.mul(s.splat(alpha), x)))
}

/// Returns `erf(x)` by the series `2 / sqrt(pi) * exp(-x^2) * sum of 2^n x^(2n+1) / (2n+1)!!`, whose terms have the
/// same sign.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    sum * (-x * x).exp() * FRAC_2_SQRT_PI
}

/// Returns `erfc(x)` for `x >= 3` by the continued fraction `exp(-x^2) / sqrt(pi) / (x + 1/2 / (x + 2/2 / (x + ..)))`.
fn erfc_fraction(x: f64) -> f64 {
    if x > 30.0 {
        // The result underflows.
        return 0.0;
    }
    let denominator = (1..=60).rev().fold(x, |denominator, n| x + f64::from(n) / 2.0 / denominator);
    (-x * x).exp() * FRAC_2_SQRT_PI / 2.0 / denominator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_and_erfc_match_known_values() {
        let points = [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (-2.0, -0.995_322_265_018_952_7),
            (3.5, 0.999_999_256_901_627_7),
            (40.0, 1.0),
            (f64::NEG_INFINITY, -1.0),
        ];
        for (x, expected) in points {
            assert!((erf(x) - expected).abs() < 1e-15, "erf({x}) is {}", erf(x));
        }
        for (x, expected) in [(2.0, 4.677_734_981_047_266e-3), (5.0, 1.537_459_794_428_035e-12)] {
            assert!((erfc(x) / expected - 1.0).abs() < 1e-12, "1 - erf({x}) is {}", erfc(x));
        }
        assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
        assert_eq!(erf(-0.0).to_bits(), (-0.0f64).to_bits());
    }
}
