//! What becomes of a sum before it is stored.

/// What is done to the sums before they are stored: `activation(sum + bias + residual)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// A number per column.
    pub bias: Option<&'a [f32]>,
    /// A matrix as large as `C`, and how many elements its rows lie apart.
    pub residual: Option<(&'a [f32], usize)>,
    /// The last step.
    pub activation: Activation,
}

/// A function of one number. All of them hand NaN on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// The number itself.
    #[default]
    None,
    /// At least 0.
    Relu,
    /// Between 0 and 6.
    Relu6,
    /// At least the first, then at most the second.
    Clamp(f32, f32),
    /// `x / (1 + exp(-x))`, within 4 units in the last place or `3e-37`.
    Silu,
    /// `x / 2 (1 + erf(x / sqrt 2))`, within `3e-7 |x|`.
    Gelu,
}

/// An activation that is more than a clamp.
#[derive(Clone, Copy, Debug)]
pub(super) enum Curve {
    Silu,
    Gelu,
}

impl Activation {
    pub(super) fn clamp(self) -> Option<(f32, f32)> {
        match self {
            Self::None | Self::Silu | Self::Gelu => None,
            Self::Relu => Some((0.0, f32::INFINITY)),
            Self::Relu6 => Some((0.0, 6.0)),
            Self::Clamp(low, high) => Some((low, high)),
        }
    }

    pub(super) fn curve(self) -> Option<Curve> {
        match self {
            Self::None | Self::Relu | Self::Relu6 | Self::Clamp(..) => None,
            Self::Silu => Some(Curve::Silu),
            Self::Gelu => Some(Curve::Gelu),
        }
    }
}

impl Curve {
    /// Applies the curve to each number. The loops have no branches, so that they become vector code of
    /// the instruction set of whoever calls.
    #[expect(clippy::inline_always, reason = "it must take on the caller's instruction set")]
    #[inline(always)]
    pub(super) fn apply(self, values: &mut [f32]) {
        match self {
            Self::Silu => values.iter_mut().for_each(|x| *x /= 1.0 + exp(-*x)),
            Self::Gelu => values.iter_mut().for_each(|x| *x = gelu(*x)),
        }
    }
}

/// `exp` within 2 units in the last place, from 0 to infinity. Private until all primitives share one.
#[inline(always)]
#[expect(clippy::excessive_precision, reason = "coefficients are as published")]
fn exp(x: f32) -> f32 {
    // Adding it leaves a whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const TERMS: [f32; 5] = [
        1.398_199_950_7e-3,
        8.333_451_907_3e-3,
        4.166_579_589_4e-2,
        1.666_666_545_9e-1,
        5.000_000_120_1e-1,
    ];
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
    // ln 2 in two parts, the first exact when multiplied.
    let rest = x - whole * 0.693_359_375 + whole * 2.121_944_4e-4;
    let mut sum = 1.987_569_150_0e-4;
    for term in TERMS {
        sum = sum * rest + term;
    }
    let value = sum * rest * rest + rest + 1.0;
    // Two factors, as 2^power alone is beyond what f32 holds at both ends.
    let half = power >> 1;
    value * power_of_two(half) * power_of_two(power.wrapping_sub(half))
}

#[expect(clippy::inline_always, reason = "it must take on the caller's instruction set")]
#[inline(always)]
fn power_of_two(power: i32) -> f32 {
    f32::from_bits(power.wrapping_add(127).cast_unsigned() << 23)
}

/// By Abramowitz and Stegun 7.1.26, which gives 1 - erf directly: the left tail keeps its digits.
#[inline(always)]
#[expect(clippy::excessive_precision, reason = "coefficients are as published")]
fn gelu(x: f32) -> f32 {
    const TERMS: [f32; 4] = [-1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let mut sum = 1.061_405_429;
    for term in TERMS {
        sum = sum * t + term;
    }
    let rest = sum * t * exp(-z * z);
    0.5 * x * if x < 0.0 { rest } else { 2.0 - rest }
}
