//! Symbolic extents: polynomials over the extents that only a run determines. Two extents with equal polynomials are
//! equal in every run.

use std::collections::BTreeMap;

/// The most terms of a polynomial; an extent with more becomes a new unknown.
const MOST_TERMS: usize = 16;

/// The index of an unknown.
type Free = usize;

/// A symbolic integer: a polynomial that maps each product of unknowns to its coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent(BTreeMap<Vec<Free>, i64>);

impl Extent {
    /// Returns a constant.
    pub(crate) fn constant(number: i64) -> Self {
        Self::default().with(Vec::new(), number).unwrap_or_default()
    }

    /// Returns an unknown.
    pub(super) fn free(of: Free) -> Self {
        Self(BTreeMap::from([(vec![of], 1)]))
    }

    /// Returns the number if it is constant.
    pub(crate) fn number(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    fn with(mut self, product: Vec<Free>, times: i64) -> Option<Self> {
        let all = self.0.get(&product).copied().unwrap_or(0).checked_add(times)?;
        if all == 0 {
            self.0.remove(&product);
        } else {
            self.0.insert(product, all);
        }
        (self.0.len() <= MOST_TERMS).then_some(self)
    }

    /// Returns the sum.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        other.0.iter().try_fold(self.clone(), |sum, (of, &times)| sum.with(of.clone(), times))
    }

    /// Returns the difference.
    pub(crate) fn minus(&self, other: &Self) -> Option<Self> {
        self.plus(&other.times(&Self::constant(-1))?)
    }

    /// Returns the product.
    pub(crate) fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (a, &times) in &self.0 {
            for (b, &more) in &other.0 {
                let mut both = [a.as_slice(), b].concat();
                both.sort_unstable();
                product = product.with(both, times.checked_mul(more)?)?;
            }
        }
        Some(product)
    }

    /// Returns the product of several factors.
    pub(crate) fn product<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        all.into_iter().try_fold(Self::constant(1), |product, next| product.times(next))
    }

    /// Returns the quotient if `by` has one term and divides every term. If `by` can be 0, the quotient holds for the
    /// runs in which it is not.
    pub(crate) fn over(&self, by: &Self) -> Option<Self> {
        let mut terms = by.0.iter();
        let (Some((by, &times)), None) = (terms.next(), terms.next()) else { return None };
        let mut quotient = Self::default();
        for (product, &all) in &self.0 {
            let mut rest = product.clone();
            for one in by {
                let at = rest.iter().position(|found| found == one)?;
                rest.remove(at);
            }
            let fits = all.checked_rem(times)? == 0;
            quotient = quotient.with(rest, all.checked_div(times).filter(|_| fits)?)?;
        }
        Some(quotient)
    }

    /// Returns whether it is at most `other` in every run, given unknowns between 0 and their bounds in `most`.
    pub(super) fn is_at_most(&self, other: &Self, most: &[usize]) -> bool {
        let Some(more) = other.minus(self) else { return false };
        let least = more.0.iter().try_fold(0i64, |least, (product, &times)| {
            if times > 0 && !product.is_empty() {
                return Some(least);
            }
            let mut factors = product.iter().map(|&of| i64::try_from(*most.get(of)?).ok());
            let largest = factors.try_fold(1i64, |all, one| all.checked_mul(one?))?;
            least.checked_add(times.checked_mul(largest)?)
        });
        least.is_some_and(|least| least >= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_in_two_ways_is_equal() {
        let [batch, seq] = [0, 1].map(Extent::free);
        let (one, two) = (Extent::constant(1), Extent::constant(2));
        // (seq + 1) * 2 * batch - 2 * batch, and 2 * seq * batch
        let more = seq.plus(&one).unwrap().times(&two).unwrap().times(&batch).unwrap();
        let less = more.minus(&batch.times(&two).unwrap()).unwrap();
        assert_eq!(less, Extent::product([&two, &seq, &batch]).unwrap());
        assert_eq!(less.over(&batch).unwrap(), seq.times(&two).unwrap());
        assert_eq!(less.over(&seq.times(&seq).unwrap()), None);
        assert_eq!(less.over(&Extent::constant(4)), None);
        assert_eq!(less.over(&seq.plus(&one).unwrap()), None);
        assert_ne!(batch, seq);
        assert_eq!(
            (two.number(), seq.number(), Extent::constant(0).number()),
            (Some(2), None, Some(0))
        );
        assert_eq!(seq.minus(&seq).unwrap().number(), Some(0));
    }

    #[test]
    fn numbers_are_compared_by_the_most_that_they_may_be() {
        let (most, seq) = ([3, 512], Extent::free(1));
        let at_most = |a: &Extent, b: &Extent| a.is_at_most(b, &most);
        assert!(at_most(&seq, &Extent::constant(512)) && !at_most(&seq, &Extent::constant(511)));
        assert!(at_most(&Extent::constant(0), &seq) && !at_most(&Extent::constant(1), &seq));
        assert!(at_most(&seq, &seq.plus(&Extent::free(0)).unwrap()));
        assert!(!at_most(&seq, &Extent::free(0)));
    }

    #[test]
    fn what_is_too_large_is_nothing() {
        let large = Extent::constant(i64::MAX);
        assert_eq!(large.plus(&Extent::constant(1)), None);
        assert_eq!(large.times(&Extent::constant(2)), None);
        let many = (0..20).try_fold(Extent::constant(0), |all, of| all.plus(&Extent::free(of)));
        assert_eq!(many, None);
    }
}
