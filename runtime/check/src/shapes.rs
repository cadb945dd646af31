//! Shapes to try operators with, by class, and rules that derive the shapes of further inputs from the first one's.

/// The feature that distinguishes the dimensions of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Small dimensions without anything special.
    Plain,
    /// Prime dimensions.
    Prime,
    /// Rank 0.
    Scalar,
    /// One more or less than the lanes of a vector.
    Vector,
    /// No elements.
    Zero,
    /// Another rank.
    Rank,
    /// Inputs of different dimensions.
    Broadcast,
    /// Bounded dimensions.
    Bounded,
    /// Many elements.
    Large,
    /// Parameters other than the defaults.
    Params,
    /// The dimensions of a captured call; the search does not try any itself.
    Captured,
}

impl Class {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Prime => "prime dimensions",
            Self::Scalar => "scalar",
            Self::Vector => "vector width",
            Self::Zero => "no elements",
            Self::Rank => "another rank",
            Self::Broadcast => "broadcast",
            Self::Bounded => "bounded",
            Self::Large => "large",
            Self::Params => "other parameters",
            Self::Captured => "captured",
        }
    }
}

/// A shape of the first input, and the lowest level that tries it.
pub(crate) struct Extents {
    pub(crate) class: Class,
    pub(crate) level: u8,
    pub(crate) dims: &'static [usize],
}

const fn row(class: Class, level: u8, dims: &'static [usize]) -> Extents {
    Extents { class, level, dims }
}

/// All shapes. For each class and level the first ones that an operator accepts are enough.
pub(crate) const EXTENTS: &[Extents] = &[
    row(Class::Plain, 1, &[1, 3, 4, 5]),
    row(Class::Plain, 1, &[2, 3]),
    row(Class::Plain, 1, &[6]),
    // Rows of box corners.
    row(Class::Plain, 1, &[5, 4]),
    row(Class::Prime, 1, &[3, 7]),
    row(Class::Prime, 1, &[7]),
    row(Class::Prime, 2, &[1, 3, 7, 5]),
    row(Class::Prime, 2, &[2, 5, 7]),
    row(Class::Scalar, 1, &[]),
    row(Class::Scalar, 1, &[1]),
    row(Class::Scalar, 2, &[1, 5]),
    row(Class::Scalar, 2, &[5, 1]),
    row(Class::Vector, 1, &[2, 17]),
    row(Class::Vector, 1, &[17]),
    row(Class::Vector, 2, &[3, 15]),
    row(Class::Vector, 2, &[33]),
    row(Class::Vector, 3, &[2, 31]),
    row(Class::Vector, 3, &[1, 2, 9, 16]),
    row(Class::Vector, 4, &[2, 63]),
    row(Class::Vector, 4, &[65]),
    row(Class::Vector, 4, &[1, 16, 5, 7]),
    row(Class::Vector, 5, &[2, 127]),
    row(Class::Vector, 5, &[129]),
    row(Class::Zero, 1, &[0, 3]),
    row(Class::Zero, 1, &[0]),
    row(Class::Zero, 1, &[0, 4]),
    row(Class::Zero, 2, &[2, 0]),
    row(Class::Zero, 3, &[0, 3, 4, 5]),
    row(Class::Rank, 1, &[2, 3, 5]),
    row(Class::Rank, 2, &[5]),
    row(Class::Rank, 2, &[4, 3]),
    row(Class::Rank, 2, &[2, 3, 4, 3]),
    row(Class::Rank, 2, &[1, 2, 3, 2, 3]),
    row(Class::Rank, 4, &[1, 2, 1, 3, 2, 2]),
    row(Class::Rank, 5, &[1, 2, 1, 2, 1, 2, 2, 2]),
    row(Class::Broadcast, 2, &[2, 3, 4]),
    row(Class::Broadcast, 3, &[5, 4]),
    row(Class::Bounded, 1, &[7]),
    row(Class::Bounded, 2, &[3, 5]),
    row(Class::Large, 2, &[3, 1021]),
    row(Class::Large, 2, &[3, 257]),
    row(Class::Large, 3, &[4099]),
    row(Class::Large, 5, &[1, 8, 61, 67]),
    row(Class::Large, 7, &[257, 1031]),
    row(Class::Params, 1, &[2, 3, 4, 5]),
    row(Class::Params, 1, &[4, 5]),
    row(Class::Params, 1, &[7]),
    row(Class::Params, 1, &[5, 4]),
];

/// Derives the dimensions of input `port`, after the first, from the first one's.
pub(crate) type Follow = fn(&[usize], usize) -> Vec<usize>;

/// The rules, most common first.
pub(crate) const FOLLOWS: &[Follow] =
    &[same, scalar, last, channels, matrix, filters, one, rank, square, rows, places];

/// The rules for broadcast inputs.
pub(crate) const BROADCASTS: &[Follow] = &[
    |first, _| first.get(1..).unwrap_or_default().to_vec(),
    |first, _| {
        first.iter().rev().enumerate().rev().map(|(at, &n)| if at == 0 { 1 } else { n }).collect()
    },
    |first, port| if port == 1 { first.iter().map(|_| 1).collect() } else { first.to_vec() },
];

fn same(first: &[usize], _port: usize) -> Vec<usize> {
    first.to_vec()
}

fn scalar(_first: &[usize], _port: usize) -> Vec<usize> {
    Vec::new()
}

fn last(first: &[usize], _port: usize) -> Vec<usize> {
    first.last().copied().into_iter().collect()
}

/// A vector as long as the second dimension, as in normalizations.
fn channels(first: &[usize], _port: usize) -> Vec<usize> {
    first.get(1).copied().into_iter().collect()
}

/// The second factor of a matrix product, then a vector as long as its columns.
fn matrix(first: &[usize], port: usize) -> Vec<usize> {
    let inner = first.last().copied().unwrap_or(1);
    if port == 1 { vec![inner, 6] } else { vec![6] }
}

/// The filters of a convolution, then a bias.
fn filters(first: &[usize], port: usize) -> Vec<usize> {
    let channels = first.get(1).copied().unwrap_or(1);
    let mut dims = vec![4, channels];
    dims.extend(first.iter().skip(2).map(|_| 2));
    if port == 1 { dims } else { vec![4] }
}

fn one(_first: &[usize], _port: usize) -> Vec<usize> {
    vec![1]
}

/// A vector with one element per dimension.
fn rank(first: &[usize], _port: usize) -> Vec<usize> {
    vec![first.len()]
}

/// A square matrix with one row per element of the last dimension.
fn square(first: &[usize], _port: usize) -> Vec<usize> {
    let n = first.last().copied().unwrap_or(1);
    vec![n, n]
}

/// One number per row.
fn rows(first: &[usize], _port: usize) -> Vec<usize> {
    first.first().copied().into_iter().collect()
}

/// Coordinates in each image of the first input, for either position of the channels.
fn places(first: &[usize], _port: usize) -> Vec<usize> {
    let spatial = first.len().saturating_sub(2);
    let mut dims: Vec<usize> = first.first().copied().into_iter().collect();
    dims.extend((0..spatial).map(|axis| axis + 2));
    dims.push(spatial);
    dims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_inputs_follow_from_the_first() {
        let first = [1, 3, 4, 5];
        let follow = |at: usize, port| FOLLOWS[at](&first, port);
        assert_eq!(follow(3, 1), [3]);
        assert_eq!((follow(4, 1), follow(4, 2)), (vec![5, 6], vec![6]));
        assert_eq!((follow(5, 1), follow(5, 2)), (vec![4, 3, 2, 2], vec![4]));
        assert_eq!((follow(9, 1), follow(10, 1)), (vec![1], vec![1, 2, 3, 2]));
        assert_eq!(BROADCASTS[0](&[2, 3, 4], 1), [3, 4]);
        assert_eq!(BROADCASTS[1](&[2, 3, 4], 1), [2, 3, 1]);
    }

    #[test]
    fn every_class_has_extents() {
        let classes: std::collections::BTreeSet<_> = EXTENTS.iter().map(|e| e.class).collect();
        assert_eq!(classes.len(), 10);
        assert!(classes.iter().all(|class| !class.name().is_empty()));
    }
}
