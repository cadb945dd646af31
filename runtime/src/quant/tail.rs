//! Detects masks: elements at one end of a value that are many times farther from 0 than all others.

use super::range::Range;

/// The smallest distance from 0 of a mask.
const LEAST: f32 = 32.0;

/// The smallest ratio between a mask's distance from 0 and that of all other elements.
const APART: f64 = 4.0;

/// The number of binary exponents from [`LEAST`] to infinity.
const EXPONENTS: usize = 124;

/// The exponent bits of [`LEAST`] in single precision.
const FIRST: u32 = LEAST.to_bits() >> 23;

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The lower end.
    Low,
    /// The upper end.
    High,
}

impl End {
    /// Both ends.
    pub(super) const BOTH: [Self; 2] = [Self::Low, Self::High];

    /// Returns the other end.
    pub(super) fn flipped(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }

    /// Returns the number that is farther out.
    pub(super) fn farther(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Low => a.min(b),
            Self::High => a.max(b),
        }
    }

    /// Returns whether a number is no farther out than another one.
    pub(super) fn is_within(self, number: f64, other: f64) -> bool {
        match self {
            Self::Low => number >= other,
            Self::High => number <= other,
        }
    }

    /// Returns the end of a range.
    pub(super) fn end(self, range: Range) -> f64 {
        match self {
            Self::Low => range.min,
            Self::High => range.max,
        }
    }

    /// Returns the number's distance in this direction.
    fn outward(self, number: f32) -> f32 {
        match self {
            Self::Low => -number,
            Self::High => number,
        }
    }
}

/// The statistics of the elements at one end.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    end: End,
    /// The range of all elements that cannot be masks.
    near: Range,
    /// The smallest and largest distance from 0 of the others, by binary exponent.
    far: Vec<[f64; 2]>,
}

impl Tail {
    pub(super) fn new(end: End) -> Self {
        Self { end, near: Range::EMPTY, far: Vec::new() }
    }

    /// Returns the statistics of some numbers.
    pub(super) fn from_numbers(end: End, numbers: &[f32]) -> Self {
        let mut tail = Self::new(end);
        tail.add(numbers, Range::from_numbers(numbers));
        tail
    }

    /// Adds numbers, all of which are in `range`.
    pub(super) fn add(&mut self, numbers: &[f32], range: Range) {
        let farthest = match self.end {
            End::Low => -range.min,
            End::High => range.max,
        };
        if farthest < f64::from(LEAST) {
            self.near = self.near.with(range);
            return;
        }
        self.far.resize(EXPONENTS, [f64::INFINITY, 0.0]);
        for &number in numbers {
            let out = self.end.outward(number);
            let exponent = (out.abs().to_bits() >> 23).checked_sub(FIRST).filter(|_| out >= LEAST);
            let slot = exponent.and_then(|at| self.far.get_mut(usize::try_from(at).ok()?));
            let (number, out) = (f64::from(number), f64::from(out));
            match slot {
                Some([least, most]) => (*least, *most) = (least.min(out), most.max(out)),
                // An empty range becomes that of the number.
                None => self.near = self.near.with(Range { min: number, max: number }),
            }
        }
    }

    /// Returns whether a number can mask elements of this range.
    pub(super) fn is_mask(number: f64, rest: Range) -> bool {
        number.abs() >= f64::from(LEAST).max(APART * rest.largest())
    }

    /// Returns the range of the elements that are not masks; `None` if there are no masks.
    pub(super) fn rest(&self) -> Option<Range> {
        let mut rest = self.near;
        for &[least, most] in self.far.iter().filter(|[least, most]| least <= most) {
            if !rest.is_empty() && least >= APART * rest.largest() {
                return Some(rest);
            }
            let ends = match self.end {
                End::Low => Range { min: -most, max: -least },
                End::High => Range { min: least, max: most },
            };
            rest = rest.with(ends);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_lie_apart_from_all_other_numbers() {
        let rest = |numbers: &[f32]| Tail::from_numbers(End::Low, numbers).rest();
        for mask in [-100.0, -1e4, -65_504.0, -1e9, -3.4e38, f32::NEG_INFINITY] {
            let of = [mask, 0.0, -2.5, 7.0, mask * 2.0];
            assert_eq!(rest(&of), Some(Range { min: -2.5, max: 7.0 }), "{mask}");
            assert_eq!(rest(&[mask, 0.0]), Some(Range { min: 0.0, max: 0.0 }), "{mask}");
            let positive: Vec<f32> = of.iter().map(|number| -number).collect();
            let range = Range { min: -7.0, max: 2.5 };
            assert_eq!(Tail::from_numbers(End::High, &positive).rest(), Some(range), "{mask}");
            assert_eq!(rest(&positive), None, "they are at the other end");
            assert_eq!(rest(&[mask; 3]), None, "there is nothing else");
        }
        for numbers in [&[-31.0, 0.0][..], &[-100.0, 30.0], &[-100.0, -30.0, -8.0, -2.0], &[]] {
            assert_eq!(rest(numbers), None, "{numbers:?}");
        }
    }

    #[test]
    fn a_tail_is_of_all_numbers_that_it_took_in() {
        let mut tail = Tail::new(End::Low);
        tail.add(&[-1e4; 2], Range { min: -1e4, max: -1e4 });
        assert_eq!(tail.rest(), None);
        tail.add(&[0.5, -0.5], Range { min: -0.5, max: 0.5 });
        assert_eq!(tail.rest(), Some(Range { min: -0.5, max: 0.5 }));
        tail.add(&[f32::NAN, -40.0], Range { min: -40.0, max: -40.0 });
        assert_eq!(tail.rest(), Some(Range { min: -0.5, max: 0.5 }), "those of -40 are masks too");
        tail.add(&[-12.0], Range { min: -12.0, max: -12.0 });
        assert_eq!(tail.rest(), Some(Range { min: -40.0, max: 0.5 }));
    }
}
