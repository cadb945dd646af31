//! Numbers of a value that lie so far out on one side that they can only mask: apart from all others, and many times as far from 0.

use super::range::Range;

/// From how far below or above 0 on a number may be a mask.
const LEAST: f32 = 32.0;

/// How many times as far from 0 as all other numbers masks are.
const APART: f64 = 4.0;

/// How many binary exponents there are from [`LEAST`] on, with that of infinity.
const EXPONENTS: usize = 124;

/// The exponent of [`LEAST`], as single precision stores it.
const FIRST: u32 = LEAST.to_bits() >> 23;

/// An end of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Below all others.
    Low,
    /// Above all others.
    High,
}

impl End {
    /// Both.
    pub(super) const BOTH: [Self; 2] = [Self::Low, Self::High];

    /// The other one.
    pub(super) fn flipped(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }

    /// The number of two that lies farther out.
    pub(super) fn farther(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Low => a.min(b),
            Self::High => a.max(b),
        }
    }

    /// Whether a number lies no farther out than another one.
    pub(super) fn is_within(self, number: f64, other: f64) -> bool {
        match self {
            Self::Low => number >= other,
            Self::High => number <= other,
        }
    }

    /// The end of a range.
    pub(super) fn of(self, range: Range) -> f64 {
        match self {
            Self::Low => range.min,
            Self::High => range.max,
        }
    }

    /// How far out a number lies.
    fn outward(self, number: f32) -> f32 {
        match self {
            Self::Low => -number,
            Self::High => number,
        }
    }
}

/// What is known of the numbers at one end.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    end: End,
    /// The range of all numbers that are not far out.
    near: Range,
    /// The least and the largest distance from 0 of those that are, by binary exponent.
    far: Vec<[f64; 2]>,
}

impl Tail {
    pub(super) fn new(end: End) -> Self {
        Self { end, near: Range::EMPTY, far: Vec::new() }
    }

    /// That of some numbers.
    pub(super) fn of(end: End, numbers: &[f32]) -> Self {
        let mut tail = Self::new(end);
        tail.add(numbers, Range::of(numbers));
        tail
    }

    /// Adds values, all of which lie in `range`.
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
                // The least of a number and of none is the number.
                None => self.near = self.near.with(Range { min: number, max: number }),
            }
        }
    }

    /// Whether a number may mask numbers of this range.
    pub(super) fn is_mask(number: f64, rest: Range) -> bool {
        number.abs() >= f64::from(LEAST).max(APART * rest.largest())
    }

    /// The range of the numbers that are no masks, if others are.
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
        let rest = |numbers: &[f32]| Tail::of(End::Low, numbers).rest();
        for mask in [-100.0, -1e4, -65_504.0, -1e9, -3.4e38, f32::NEG_INFINITY] {
            let of = [mask, 0.0, -2.5, 7.0, mask * 2.0];
            assert_eq!(rest(&of), Some(Range { min: -2.5, max: 7.0 }), "{mask}");
            assert_eq!(rest(&[mask, 0.0]), Some(Range { min: 0.0, max: 0.0 }), "{mask}");
            let positive: Vec<f32> = of.iter().map(|number| -number).collect();
            let range = Range { min: -7.0, max: 2.5 };
            assert_eq!(Tail::of(End::High, &positive).rest(), Some(range), "{mask}");
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
