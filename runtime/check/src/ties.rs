//! Input shapes that share dimensions, for operators about which nothing else is known.

use udo_generator::{Pattern, VARIABLES};

use crate::shapes::Class;
use crate::values::Random;

/// The dimensions that a pattern must be accepted with first.
pub(crate) const FIRST: [usize; VARIABLES] = [4, 6, 2];

/// Small dimensions with other divisors than the first ones.
pub(crate) const OTHERS: &[[usize; VARIABLES]] = &[[8, 3, 2], [9, 8, 4]];

/// The dimensions to try an accepted pattern with, and the lowest level of each.
pub(crate) const EXTENTS: &[(Class, u8, [usize; VARIABLES])] = &[
    (Class::Plain, 2, [2, 4, 8]),
    (Class::Plain, 3, [6, 3, 4]),
    (Class::Prime, 1, [3, 7, 5]),
    (Class::Prime, 2, [7, 2, 3]),
    (Class::Scalar, 1, [1, 1, 1]),
    (Class::Vector, 1, [16, 18, 2]),
    (Class::Vector, 2, [2, 17, 16]),
    (Class::Vector, 3, [10, 34, 6]),
    (Class::Zero, 1, [0, 6, 2]),
    (Class::Zero, 2, [4, 0, 2]),
    (Class::Zero, 3, [4, 6, 0]),
    (Class::Large, 2, [36, 40, 12]),
    (Class::Large, 3, [2, 64, 66]),
];

/// Draws a pattern for this number of inputs.
pub(crate) fn draw(inputs: usize, random: &mut Random) -> Pattern {
    Pattern::drawn(inputs, &mut |end| usize::try_from(random.below(end as u64)).unwrap_or(0))
}
