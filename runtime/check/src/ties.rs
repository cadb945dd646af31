//! Extents of inputs that have some in common, where nothing else is known of them.

use udo_generator::{Pattern, VARIABLES};

use crate::shapes::Class;
use crate::values::Random;

/// What a pattern is tried with before it is kept.
pub(crate) const FIRST: [usize; VARIABLES] = [4, 6, 2];

/// Small extents that other numbers go into than those of the first.
pub(crate) const OTHERS: &[[usize; VARIABLES]] = &[[8, 3, 2], [9, 8, 4]];

/// What kept patterns are tried with, and from which level on.
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

/// Any pattern for so many inputs.
pub(crate) fn drawn(inputs: usize, random: &mut Random) -> Pattern {
    Pattern::drawn(inputs, &mut |end| usize::try_from(random.below(end as u64)).unwrap_or(0))
}
