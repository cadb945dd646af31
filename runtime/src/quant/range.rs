//! Ranges of real values, and the encodings that follow from them.

use udo_api::{DType, Encoding};

/// The default minimum width of a range whose quantized values are asymmetric. It only keeps the scale of a constant away from 0:
/// the width that TensorFlow and SNPE have, 0.01, turns a model whose values are small into zeros.
pub(super) const LEAST_WIDTH: f64 = 1e-9;

/// The smallest step of a symmetric range, for values that are all 0.
const LEAST_STEP: f64 = 1e-9;

/// A range of real values, inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lower end.
    pub min: f64,
    /// The upper end.
    pub max: f64,
}

impl Range {
    /// The range of no number.
    pub(super) const EMPTY: Self = Self { min: f64::INFINITY, max: f64::NEG_INFINITY };

    /// The range of a sigmoid or softmax.
    pub(crate) const UNIT: Self = Self { min: 0.0, max: 1.0 };

    /// Returns the range of these numbers, without NaN.
    pub(crate) fn from_numbers(numbers: &[f32]) -> Self {
        // With 16 accumulators, the compiler vectorizes the loop.
        let (mut least, mut most) = ([f32::INFINITY; 16], [f32::NEG_INFINITY; 16]);
        let mut chunks = numbers.chunks_exact(16);
        for chunk in chunks.by_ref() {
            for ((least, most), &x) in least.iter_mut().zip(&mut most).zip(chunk) {
                *least = if x < *least { x } else { *least };
                *most = if x > *most { x } else { *most };
            }
        }
        let rest = chunks.remainder().iter().copied();
        let min = least.into_iter().chain(rest.clone()).fold(f32::INFINITY, f32::min);
        let max = most.into_iter().chain(rest).fold(f32::NEG_INFINITY, f32::max);
        Self { min: min.into(), max: max.into() }
    }

    /// Returns the smallest range that contains both.
    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Whether no number is in it.
    pub(super) fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// Returns whether both ends are finite.
    pub(crate) fn is_finite(self) -> bool {
        self.min.is_finite() && self.max.is_finite()
    }

    /// Returns the largest distance from 0.
    pub(crate) fn largest(self) -> f64 {
        self.min.abs().max(self.max.abs())
    }

    /// Returns the range extended to include 0 and to the smallest width.
    fn widened(self, least_width: f64) -> Self {
        let min = self.min.min(0.0);
        Self { min, max: self.max.max(0.0).max(min + least_width) }
    }

    /// Returns the width, including 0.
    pub(super) fn width(self) -> f64 {
        self.max.max(0.0) - self.min.min(0.0)
    }
}

/// The integers of a quantized type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The type that stores them.
    pub dtype: DType,
    /// The smallest integer.
    pub least: i32,
    /// The largest integer.
    pub most: i32,
}

impl Levels {
    /// Returns the unsigned integers of `bits`; 4 bits are stored in 8.
    pub(crate) fn unsigned(bits: Bits) -> Self {
        let (dtype, most) = match bits {
            Bits::Four => (DType::U8, 15),
            Bits::Eight => (DType::U8, 255),
            Bits::Sixteen => (DType::U16, 65535),
        };
        Self { dtype, least: 0, most }
    }

    /// Returns the integers of `bits` that are symmetric around 0.
    pub(crate) fn signed(bits: Bits) -> Self {
        let (dtype, most) = match bits {
            Bits::Four => (DType::I8, 7),
            Bits::Eight => (DType::I8, 127),
            Bits::Sixteen => (DType::I16, 32767),
        };
        Self { dtype, least: -most, most }
    }

    /// Returns the number of steps between the smallest and the largest integer.
    pub(super) fn steps(self) -> f64 {
        f64::from(self.most) - f64::from(self.least)
    }

    /// Returns an asymmetric encoding in the manner of TensorFlow: the range includes 0, is at least `least_width`
    /// wide, and is shifted so that 0 is representable.
    pub(crate) fn asymmetric(self, range: Range, least_width: f64) -> Encoding {
        let Range { min, max } = range.widened(least_width);
        let width = max - min;
        // A single division: for a symmetric range it yields exactly a half, which rounds up.
        let zero = (-min * self.steps() / width).round();
        let zero_point = self.least.saturating_add(to_int(zero));
        Encoding { scale: to_single(width / self.steps()), zero_point }
    }

    /// Returns the encoding of a range that does not depend on data. If the `seen` elements stay below a quarter of it,
    /// the range is halved repeatedly while they fit into half of the rest, for finer steps.
    pub(crate) fn fixed(self, range: Range, seen: Range, least_width: f64) -> Encoding {
        let mut part = 1.0;
        let is_wide = |part: f64| (range.max - range.min) * part >= 2.0 * least_width;
        while !seen.is_empty()
            && 4.0 * seen.largest() <= range.largest() * part
            && is_wide(part / 2.0)
        {
            part /= 2.0;
        }
        self.asymmetric(Range { min: range.min * part, max: range.max * part }, least_width)
    }

    /// Returns a symmetric encoding: zero point 0, and the larger end of the range at the largest integer.
    pub(crate) fn symmetric(self, range: Range) -> Encoding {
        let step = range.largest() / f64::from(self.most);
        Encoding { scale: to_single(step.max(LEAST_STEP)), zero_point: 0 }
    }

    /// Returns the integer of a number: rounded half to even, and saturated.
    pub(crate) fn stored(self, encoding: Encoding, number: f32) -> i32 {
        let stored = unbounded(encoding, number);
        to_int(stored.clamp(self.least.into(), self.most.into()))
    }

    /// The difference between the values of the largest and the least level.
    pub(super) fn range(self, encoding: Encoding) -> Range {
        let number = |stored: i32| {
            (f64::from(stored) - f64::from(encoding.zero_point)) * f64::from(encoding.scale)
        };
        Range { min: number(self.least), max: number(self.most) }
    }
}

/// The number of bits of quantized values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// 4.
    Four,
    /// 8.
    Eight,
    /// 16.
    Sixteen,
}

impl Bits {
    /// The number of bits that is `count`: 4, 8 or 16.
    pub(super) fn with_count(count: u32) -> Option<Self> {
        [Self::Four, Self::Eight, Self::Sixteen].into_iter().find(|bits| u32::from(*bits) == count)
    }
}

impl From<Bits> for u32 {
    fn from(bits: Bits) -> Self {
        match bits {
            Bits::Four => 4,
            Bits::Eight => 8,
            Bits::Sixteen => 16,
        }
    }
}

/// Returns the integer of a number before saturation.
pub(super) fn unbounded(encoding: Encoding, number: f32) -> f64 {
    let steps = (number / encoding.scale).round_ties_even();
    f64::from(steps) + f64::from(encoding.zero_point)
}

/// Converts a whole number to an integer, saturating.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn to_int(number: f64) -> i32 {
    number as i32
}

/// Rounds a number to single precision.
#[expect(clippy::cast_possible_truncation, reason = "it rounds")]
pub(super) fn to_single(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const U8: Levels = Levels { dtype: DType::U8, least: 0, most: 255 };

    fn encoded(min: f64, max: f64) -> (Encoding, Range) {
        let encoding = U8.asymmetric(Range { min, max }, LEAST_WIDTH);
        (encoding, U8.range(encoding))
    }

    fn is_near(found: Range, min: f64, max: f64) {
        assert!((found.min - min).abs() < 1e-6, "{found:?}, expected {min}");
        assert!((found.max - max).abs() < 1e-6, "{found:?}, expected {max}");
    }

    #[test]
    fn a_range_above_zero_is_widened_down_to_it() {
        let (encoding, range) = encoded(5.0, 10.0);
        assert_eq!(encoding.zero_point, 0);
        is_near(range, 0.0, 10.0);
    }

    #[test]
    fn a_range_below_zero_is_widened_up_to_it() {
        let (encoding, range) = encoded(-20.0, -6.0);
        assert_eq!(encoding.zero_point, 255);
        is_near(range, -20.0, 0.0);
    }

    #[test]
    fn a_range_with_zero_in_it_is_moved_so_that_zero_is_a_step() {
        let (encoding, range) = encoded(-5.1, 5.1);
        assert_eq!(encoding.zero_point, 128, "half a step goes up");
        is_near(range, -5.12, 5.08);
    }

    #[test]
    fn numbers_are_stored_and_come_back_as_published() {
        let numbers = [-1.8, -1.0, 0.0, 0.5];
        let encoding = U8.asymmetric(Range::from_numbers(&numbers), LEAST_WIDTH);
        is_near(U8.range(encoding), -1.803_921_6, 0.496_078_4);
        let stored = numbers.map(|number| U8.stored(encoding, number));
        assert_eq!(stored, [0, 89, 200, 255]);
        let back = stored.map(|q| f64::from(q - encoding.zero_point) * f64::from(encoding.scale));
        for (back, wanted) in back.into_iter().zip([-1.803_922, -1.001_176, 0.0, 0.496_078]) {
            assert!((back - wanted).abs() < 1e-6, "{back}, expected {wanted}");
        }
    }

    #[test]
    fn no_range_is_narrower_than_the_least_width() {
        for (min, max) in [(0.0, 0.0), (0.0, 1e-10), (-1e-10, 0.0)] {
            let (encoding, _) = encoded(min, max);
            assert!(f64::from(encoding.scale) * 255.0 >= 0.999 * LEAST_WIDTH, "{min}..{max}");
        }
        let (encoding, range) = encoded(-3.0, -3.0);
        assert_eq!(encoding.zero_point, 255);
        is_near(range, -3.0, 0.0);
    }

    #[test]
    fn sixteen_bits_have_as_many_more_steps() {
        let levels = Levels::unsigned(Bits::Sixteen);
        let encoding = levels.asymmetric(Range { min: -1.0, max: 3.0 }, LEAST_WIDTH);
        assert_eq!(encoding.zero_point, 16384);
        assert!((f64::from(encoding.scale) - 4.0 / 65535.0).abs() < 1e-10);
        assert_eq!(levels.stored(encoding, 100.0), 65535);
        assert_eq!(levels.stored(encoding, -100.0), 0);
    }

    #[test]
    fn fixed_ranges_are_those_of_their_function_unless_numbers_stay_far_below() {
        let unit = |max: f64| U8.fixed(Range::UNIT, Range { min: 0.0, max }, LEAST_WIDTH);
        assert_eq!(unit(0.9), Encoding { scale: 1.0 / 255.0, zero_point: 0 });
        assert_eq!(unit(0.26), unit(1.0), "there is as much room above what was seen");
        assert_eq!(unit(0.25), Encoding { scale: 0.5 / 255.0, zero_point: 0 });
        assert_eq!(unit(1e-10), unit(0.0), "no range is too narrow");
        assert_eq!(U8.fixed(Range::UNIT, Range::EMPTY, LEAST_WIDTH), unit(1.0));
        let both =
            U8.fixed(Range { min: -1.0, max: 1.0 }, Range { min: -0.9, max: 0.1 }, LEAST_WIDTH);
        assert_eq!(both, Encoding { scale: 2.0 / 255.0, zero_point: 128 });
    }

    #[test]
    fn symmetric_ranges_store_zero_as_zero_and_use_no_lesser_end() {
        for (bits, most) in [(Bits::Four, 7), (Bits::Eight, 127), (Bits::Sixteen, 32767)] {
            let levels = Levels::signed(bits);
            let encoding = levels.symmetric(Range { min: -2.0, max: 1.0 });
            assert_eq!(encoding.zero_point, 0);
            assert_eq!(levels.stored(encoding, -2.0), -most);
            assert_eq!(levels.stored(encoding, -9.0), -most, "as far below 0 as above");
            assert_eq!(levels.stored(encoding, 2.0), most);
        }
        let nothing = Levels::signed(Bits::Eight).symmetric(Range { min: 0.0, max: 0.0 });
        assert!(nothing.scale.is_normal());
    }

    #[test]
    fn ranges_leave_out_what_is_no_number() {
        let numbers: Vec<f32> =
            (0..40u8).map(|n| if n % 7 == 3 { f32::NAN } else { f32::from(n) - 20.0 }).collect();
        assert_eq!(Range::from_numbers(&numbers), Range { min: -20.0, max: 19.0 });
        assert!(Range::from_numbers(&[]).is_empty() && Range::from_numbers(&[f32::NAN]).is_empty());
        assert!(!Range::from_numbers(&[f32::INFINITY]).is_finite());
        let both = Range::from_numbers(&[1.0]).with(Range::from_numbers(&[-3.0]));
        assert_eq!(both, Range { min: -3.0, max: 1.0 });
    }
}
