//! Stored types of outputs, and the error that rounding to a stored type adds to the tolerance.

use crate::{
    bound::{Arithmetic, Num, Val},
    number::whole,
};

/// The stored type of an output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Storage {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Wrapping integers of this many bits.
    Int {
        /// The number of bits, at most 64.
        bits: u32,
        /// Whether they are signed.
        signed: bool,
    },
    /// Bools.
    Bool,
    /// Quantized values `scale * (stored - zero_point)`, saturated.
    Quantized {
        /// The scale.
        scale: f64,
        /// The zero point.
        zero_point: i64,
        /// The lowest stored value.
        min: i64,
        /// The highest stored value.
        max: i64,
    },
}

impl Storage {
    /// Converts a computed value to the stored type; its error becomes the tolerance of the stored value.
    pub(crate) fn stored(self, value: Val) -> Val {
        let rounded = |arithmetic: Arithmetic| match value.num {
            Num::Float(number) if !arithmetic.holds(number) => {
                arithmetic.computed(number, value.error, 1.0)
            }
            Num::Float(number) => arithmetic.computed(number, value.error, 0.0),
            Num::Int(_) | Num::Bool(_) => value,
        };
        match self {
            Self::F16 => rounded(Arithmetic::F16),
            Self::F32 => rounded(Arithmetic::F32),
            Self::F64 => rounded(Arithmetic::F64),
            Self::Bool => Val::maybe(value.holds(), !value.is_sure()),
            Self::Int { bits, signed } => {
                Val { num: Num::Int(wrapped(value.whole(), bits, signed)), error: value.error }
            }
            Self::Quantized { scale, zero_point, min, max } => {
                let real =
                    |stored: i64| scale * crate::number::real(stored.wrapping_sub(zero_point));
                let number = value.real();
                if number.is_nan() {
                    return Val::float(number, f64::INFINITY);
                }
                let saturated = number.max(real(min)).min(real(max));
                // One quantization step: half for the rounding, and half because a kernel's quotient may round to the
                // other side of a tie.
                let error =
                    if value.error.is_finite() { value.error + scale } else { f64::INFINITY };
                Val::float(saturated, error)
            }
        }
    }
}

/// Returns the lowest bits of an integer, signed or unsigned.
fn wrapped(value: i64, bits: u32, signed: bool) -> i64 {
    let unused_bits = 64_u32.saturating_sub(bits.max(1));
    let shifted = value << unused_bits;
    if signed {
        shifted >> unused_bits
    } else {
        (shifted.cast_unsigned() >> unused_bits).cast_signed()
    }
}

/// Quantizes a number: rounds half to even and saturates, as kernels do.
pub fn quantize(value: f64, scale: f64, zero_point: i64, min: i64, max: i64) -> i64 {
    whole((value / scale).round_ties_even()).saturating_add(zero_point).clamp(min, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_into_their_width() {
        let cases = [
            (200, 8, true, -56),
            (200, 8, false, 200),
            (-1, 8, false, 255),
            (1 << 33, 32, true, 0),
            (-5, 64, true, -5),
        ];
        for (value, bits, signed, expected) in cases {
            assert_eq!(wrapped(value, bits, signed), expected, "{value} in {bits} bits");
        }
    }

    #[test]
    fn quantized_values_saturate_with_a_tolerance_of_one_step() {
        let storage = Storage::Quantized { scale: 0.5, zero_point: 128, min: 0, max: 255 };
        let stored = storage.stored(Val::float(1000.0, 0.25));
        assert_eq!((stored.real(), stored.error), (63.5, 0.75));
        assert_eq!(quantize(0.75, 0.5, 128, 0, 255), 130);
        assert_eq!(quantize(1e9, 0.5, 128, 0, 255), 255);
    }

    #[test]
    fn half_precision_rounds_and_overflows_to_infinity() {
        let stored = |value| Storage::F16.stored(Val::float(value, 0.0)).error;
        let cases = [(0.5, 0.0), (0.1, 0.1 * 0.5_f64.powi(11)), (70000.0, f64::INFINITY)];
        for (value, error) in cases {
            assert_eq!(stored(value).to_bits(), error.to_bits(), "{value}");
        }
    }
}
