//! Shapes of up to eight dimensions, stored inline.

use std::fmt;

use crate::error::Error;

/// The highest rank that a tensor may have.
pub const MAX_RANK: usize = 8;

/// One dimension: fixed, open or bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// This many elements in every run of the model.
    Fixed(usize),
    /// This many elements in every run of this plan; another plan of the same model may have another number. Data that
    /// plans share, such as packed constants, must not depend on it.
    Open(usize),
    /// At most this many elements; each run determines the number.
    UpTo(usize),
}

impl Dim {
    /// Returns the number of elements, or its upper bound.
    pub const fn bound(self) -> usize {
        match self {
            Self::Fixed(n) | Self::Open(n) | Self::UpTo(n) => n,
        }
    }

    /// Returns the number of elements, unless each run determines it.
    pub const fn exact(self) -> Option<usize> {
        match self {
            Self::Fixed(n) | Self::Open(n) => Some(n),
            Self::UpTo(_) => None,
        }
    }

    /// Returns a dimension derived from this one, with the same certainty.
    #[must_use]
    pub const fn with(self, extent: usize) -> Self {
        match self {
            Self::Fixed(_) => Self::Fixed(extent),
            Self::Open(_) => Self::Open(extent),
            Self::UpTo(_) => Self::UpTo(extent),
        }
    }

    /// Returns a dimension derived from this one and `other`, with the lesser certainty of both.
    #[must_use]
    pub const fn with_both(self, other: Self, extent: usize) -> Self {
        match (self, other) {
            (Self::UpTo(_), _) | (_, Self::Fixed(_)) => self.with(extent),
            _ => other.with(extent),
        }
    }
}

abi_struct! {
    /// The dimensions of a tensor, outermost first; bits per dimension say whether it is bounded or open. Shapes that
    /// differ only in open dimensions compare equal, since they mean the same for a plan.
    #[derive(Clone, Copy)]
    pub struct Shape {
        rank: u8,
        bounded: u8,
        open: u8,
        reserved: [u8; 5],
        dims: [usize; 8],
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        (self.bounded, self.dims()) == (other.bounded, other.dims())
    }
}

impl Eq for Shape {}

impl Shape {
    /// The shape of a scalar.
    pub const SCALAR: Self = Self { rank: 0, bounded: 0, open: 0, reserved: [0; 5], dims: [0; 8] };

    /// Creates a shape of fixed dimensions.
    ///
    /// # Errors
    /// More than eight dimensions, or more elements than an address can count.
    pub fn new(dims: &[usize]) -> Result<Self, Error> {
        if dims.len() > MAX_RANK {
            return Err(Error::new(format!("rank is {}, expected at most {MAX_RANK}", dims.len())));
        }
        let mut shape = Self::SCALAR;
        for &dim in dims {
            shape.push(Dim::Fixed(dim));
        }
        shape.checked_len()?;
        Ok(shape)
    }

    /// Creates a shape of these dimensions.
    ///
    /// # Errors
    /// More than eight dimensions, or more elements than an address can count.
    pub fn from_dims(dims: &[Dim]) -> Result<Self, Error> {
        let mut shape = Self::new(&[])?;
        for &dim in dims {
            if shape.rank() == MAX_RANK {
                return Err(Error::new(format!(
                    "rank is {}, expected at most {MAX_RANK}",
                    dims.len()
                )));
            }
            shape.push(dim);
        }
        shape.checked_len()?;
        Ok(shape)
    }

    /// The former name of [`Shape::from_dims`].
    ///
    /// # Errors
    /// As [`Shape::from_dims`].
    #[doc(hidden)]
    pub fn of_dims(dims: &[Dim]) -> Result<Self, Error> {
        Self::from_dims(dims)
    }

    fn push(&mut self, dim: Dim) {
        let axis = self.rank();
        if let Some(slot) = self.dims.get_mut(axis) {
            *slot = dim.bound();
            self.bounded |= u8::from(matches!(dim, Dim::UpTo(_))) << axis;
            self.open |= u8::from(matches!(dim, Dim::Open(_))) << axis;
            self.rank += 1;
        }
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank).min(MAX_RANK)
    }

    /// Returns the dimensions; bounded ones as their upper bounds.
    pub fn dims(&self) -> &[usize] {
        self.dims.get(..self.rank()).unwrap_or(&[])
    }

    /// Returns the dimension at `axis`.
    pub fn dim(&self, axis: usize) -> Option<Dim> {
        let extent = *self.dims().get(axis)?;
        Some(match (self.bounded >> axis & 1, self.open >> axis & 1) {
            (1, _) => Dim::UpTo(extent),
            (_, 1) => Dim::Open(extent),
            _ => Dim::Fixed(extent),
        })
    }

    /// Iterates over the dimensions, outermost first.
    pub fn iter(&self) -> impl Iterator<Item = Dim> {
        (0..self.rank()).filter_map(|axis| self.dim(axis))
    }

    /// Whether no dimension is bounded; open dimensions are known in a plan.
    pub fn is_fixed(&self) -> bool {
        self.bounded == 0
    }

    /// Returns one bit per bounded dimension; the lowest stands for the outermost.
    pub(crate) const fn bounded_axes(&self) -> u8 {
        self.bounded
    }

    /// Whether a foreign shape has fields that a constructor could have created.
    pub(crate) fn is_sound(&self) -> bool {
        let rank = usize::from(self.rank);
        let beyond = u32::from(self.bounded | self.open) >> rank.min(MAX_RANK);
        let is_clear = self.bounded & self.open == 0 && self.reserved == [0; 5];
        rank <= MAX_RANK && beyond == 0 && is_clear && self.checked_len().is_ok()
    }

    /// Returns the number of elements, or its upper bound.
    ///
    /// Constructors check that it does not overflow; a foreign shape with an overflow returns `usize::MAX`.
    pub fn len(&self) -> usize {
        self.checked_len().unwrap_or(usize::MAX)
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.dims().contains(&0)
    }

    fn checked_len(&self) -> Result<usize, Error> {
        let mut nonzero = self.dims().iter().filter(|&&d| d != 0);
        let len = nonzero
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n <= isize::MAX as usize / 8);
        match len {
            None => Err(Error::new(format!("shape {self} has too many elements"))),
            Some(_) if self.is_empty() => Ok(0),
            Some(len) => Ok(len),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, dim) in self.iter().enumerate() {
            let comma = if axis == 0 { "" } else { "," };
            match dim {
                Dim::Fixed(n) | Dim::Open(n) => write!(f, "{comma}{n}")?,
                Dim::UpTo(n) => write!(f, "{comma}<={n}")?,
            }
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_count_their_elements() {
        let cases: &[(&[usize], usize)] = &[(&[], 1), (&[3], 3), (&[2, 3, 4], 24), (&[5, 0, 7], 0)];
        for (dims, len) in cases {
            assert_eq!(Shape::new(dims).unwrap().len(), *len, "{dims:?}");
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert!(Shape::new(&[1; 9]).is_err());
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[usize::MAX, 0, 2]).is_err(), "overflow hides behind a zero");
    }

    #[test]
    fn open_dimensions_are_known_in_a_plan() {
        let open = Shape::from_dims(&[Dim::Open(2), Dim::Fixed(6)]).unwrap();
        assert_eq!(open.iter().collect::<Vec<_>>(), [Dim::Open(2), Dim::Fixed(6)]);
        assert!(open.is_fixed() && open.is_sound());
        assert_eq!(open, Shape::new(&[2, 6]).unwrap());
        assert_eq!(open.to_string(), "[2,6]");
        assert!(!Shape { bounded: 1, ..open }.is_sound(), "open and bounded");
        assert!(!Shape { open: 4, ..open }.is_sound(), "beyond the rank");
    }

    #[test]
    fn a_dimension_from_two_has_the_less_certain_kind() {
        let dims = [Dim::Fixed(1), Dim::Open(2), Dim::UpTo(3)];
        for (i, a) in dims.into_iter().enumerate() {
            for (j, b) in dims.into_iter().enumerate() {
                assert_eq!(a.with_both(b, 7), dims[i.max(j)].with(7), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn bounded_dimensions_print_their_bound() {
        let shape = Shape::from_dims(&[Dim::Fixed(2), Dim::UpTo(6)]).unwrap();
        assert_eq!(shape.to_string(), "[2,<=6]");
        assert_eq!(shape.dim(1), Some(Dim::UpTo(6)));
        assert!(!shape.is_fixed());
    }
}
