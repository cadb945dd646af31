//! Symbolic extents: polynomials over the extents that only a run determines, such as `2 * batch * (length + 1)`. Two
//! extents with equal polynomials are equal in every run, which lets passes fuse nodes whose shapes are not fixed.

use std::collections::BTreeMap;

/// The largest number of terms of a polynomial; an extent with more becomes a new unknown.
const MAX_TERMS: usize = 16;

/// The index of an unknown.
type Unknown = usize;

/// A symbolic integer: a polynomial that maps each product of unknowns to its coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent(BTreeMap<Vec<Unknown>, i64>);

impl Extent {
    /// Returns a constant.
    pub(crate) fn constant(number: i64) -> Self {
        Self::default().with(Vec::new(), number).unwrap_or_default()
    }

    /// Returns an unknown.
    pub(super) fn unknown(unknown: Unknown) -> Self {
        Self(BTreeMap::from([(vec![unknown], 1)]))
    }

    /// Returns the number if it is constant.
    pub(crate) fn number(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// Adds a term; `None` if the result is too large.
    fn with(mut self, product: Vec<Unknown>, coefficient: i64) -> Option<Self> {
        let sum = self.0.get(&product).copied().unwrap_or(0).checked_add(coefficient)?;
        if sum == 0 {
            self.0.remove(&product);
        } else {
            self.0.insert(product, sum);
        }
        (self.0.len() <= MAX_TERMS).then_some(self)
    }

    /// Returns the sum; `None` if it is too large, as for the functions below.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        other
            .0
            .iter()
            .try_fold(self.clone(), |sum, (product, &times)| sum.with(product.clone(), times))
    }

    /// Returns the difference.
    pub(crate) fn minus(&self, other: &Self) -> Option<Self> {
        self.plus(&other.times(&Self::constant(-1))?)
    }

    /// Returns the product.
    pub(crate) fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (a, &a_times) in &self.0 {
            for (b, &b_times) in &other.0 {
                let mut unknowns = [a.as_slice(), b].concat();
                unknowns.sort_unstable();
                product = product.with(unknowns, a_times.checked_mul(b_times)?)?;
            }
        }
        Some(product)
    }

    /// Returns the product of several factors.
    pub(crate) fn product<'a>(factors: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        factors.into_iter().try_fold(Self::constant(1), |product, next| product.times(next))
    }

    /// Returns the quotient if `divisor` has one term and divides every term. If `divisor` can be 0, the quotient holds
    /// for the runs in which it is not.
    pub(crate) fn over(&self, divisor: &Self) -> Option<Self> {
        let mut terms = divisor.0.iter();
        let (Some((unknowns, &divisor)), None) = (terms.next(), terms.next()) else { return None };
        let mut quotient = Self::default();
        for (product, &coefficient) in &self.0 {
            let mut remaining = product.clone();
            for unknown in unknowns {
                let index = remaining.iter().position(|factor| factor == unknown)?;
                remaining.remove(index);
            }
            let fits = coefficient.checked_rem(divisor)? == 0;
            quotient =
                quotient.with(remaining, coefficient.checked_div(divisor).filter(|_| fits)?)?;
        }
        Some(quotient)
    }

    /// Returns whether it is at most `other` in every run. Unknowns are between 0 and `upper_bounds`, by index.
    pub(super) fn is_at_most(&self, other: &Self, upper_bounds: &[usize]) -> bool {
        let Some(difference) = other.minus(self) else { return false };
        // The smallest difference: terms with a positive coefficient are 0, the others as large as they can be.
        let smallest = difference.0.iter().try_fold(0i64, |sum, (product, &times)| {
            if times > 0 && !product.is_empty() {
                return Some(sum);
            }
            let mut bounds =
                product.iter().map(|&unknown| i64::try_from(*upper_bounds.get(unknown)?).ok());
            let largest = bounds.try_fold(1i64, |product, bound| product.checked_mul(bound?))?;
            sum.checked_add(times.checked_mul(largest)?)
        });
        smallest.is_some_and(|smallest| smallest >= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_extents_have_equal_polynomials() {
        let [batch, seq] = [0, 1].map(Extent::unknown);
        let (one, two) = (Extent::constant(1), Extent::constant(2));
        // (seq + 1) * 2 * batch - 2 * batch, and 2 * seq * batch
        let product = seq.plus(&one).unwrap().times(&two).unwrap().times(&batch).unwrap();
        let difference = product.minus(&batch.times(&two).unwrap()).unwrap();
        assert_eq!(difference, Extent::product([&two, &seq, &batch]).unwrap());
        assert_eq!(difference.over(&batch).unwrap(), seq.times(&two).unwrap());
        assert_eq!(difference.over(&seq.times(&seq).unwrap()), None);
        assert_eq!(difference.over(&Extent::constant(4)), None);
        assert_eq!(difference.over(&seq.plus(&one).unwrap()), None);
        assert_ne!(batch, seq);
        assert_eq!(
            (two.number(), seq.number(), Extent::constant(0).number()),
            (Some(2), None, Some(0))
        );
        assert_eq!(seq.minus(&seq).unwrap().number(), Some(0));
    }

    #[test]
    fn extents_are_compared_by_their_bounds() {
        let (upper_bounds, seq) = ([3, 512], Extent::unknown(1));
        let at_most = |a: &Extent, b: &Extent| a.is_at_most(b, &upper_bounds);
        assert!(at_most(&seq, &Extent::constant(512)) && !at_most(&seq, &Extent::constant(511)));
        assert!(at_most(&Extent::constant(0), &seq) && !at_most(&Extent::constant(1), &seq));
        assert!(at_most(&seq, &seq.plus(&Extent::unknown(0)).unwrap()));
        assert!(!at_most(&seq, &Extent::unknown(0)));
    }

    #[test]
    fn too_large_extents_are_none() {
        let large = Extent::constant(i64::MAX);
        assert_eq!(large.plus(&Extent::constant(1)), None);
        assert_eq!(large.times(&Extent::constant(2)), None);
        let many =
            (0..20).try_fold(Extent::constant(0), |sum, index| sum.plus(&Extent::unknown(index)));
        assert_eq!(many, None);
    }
}
