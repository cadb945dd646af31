//! A total order of the elements of each type, for operators that compare or sort them.

use udo_api::{Bf16, Bool, Element, Error, F16};

/// An element type with a total order: NaN is above all values and equal to NaN, and -0 equals 0.
pub(crate) trait Ranked: Element {
    /// The largest rank: `u32::MAX` or `u64::MAX`.
    const MOST: u64;

    /// Maps an element to an integer; the integers have the order of the elements.
    fn rank(self) -> u64;

    /// Whether `self` is above `other`.
    #[inline]
    fn above(self, other: Self) -> bool {
        self.rank() > other.rank()
    }

    /// Whether `self` is below `other`, with NaN below all values.
    #[inline]
    fn below(self, other: Self) -> bool {
        self.rank() < other.rank()
    }
}

macro_rules! integers {
    ($($t:ty, $most:ty, $lowest:expr;)*) => {$(
        impl Ranked for $t {
            const MOST: u64 = <$most>::MAX as u64;
            #[inline]
            fn rank(self) -> u64 { (self as $most ^ $lowest) as u64 }
            #[inline]
            fn above(self, other: Self) -> bool { self > other }
            #[inline]
            fn below(self, other: Self) -> bool { self < other }
        }
    )*};
}

integers! {
    u8, u32, 0;
    u16, u32, 0;
    u32, u32, 0;
    u64, u64, 0;
    i8, u32, 1 << 31;
    i16, u32, 1 << 31;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
}

macro_rules! floats {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Ranked for $t {
            const MOST: u64 = <$bits>::MAX as u64;

            #[inline]
            fn rank(self) -> u64 {
                if self.is_nan() {
                    return Self::MOST;
                }
                // Adding 0 turns -0 into 0.
                let bits = (self + 0.0).to_bits();
                let sign = 1 << (<$bits>::BITS - 1);
                (if bits & sign == 0 { bits | sign } else { !bits }) as u64
            }

            #[inline]
            fn above(self, other: Self) -> bool { (self > other) | (self.is_nan() & !other.is_nan()) }

            #[inline]
            fn below(self, other: Self) -> bool { (self < other) | (self.is_nan() & !other.is_nan()) }
        }
    )*};
}

floats! {
    f32, u32;
    f64, u64;
}

macro_rules! half_precision {
    ($($t:ty),*) => {$(
        impl Ranked for $t {
            const MOST: u64 = f32::MOST;
            #[inline]
            fn rank(self) -> u64 { self.to_f32().rank() }
            #[inline]
            fn above(self, other: Self) -> bool { self.to_f32().above(other.to_f32()) }
            #[inline]
            fn below(self, other: Self) -> bool { self.to_f32().below(other.to_f32()) }
        }
    )*};
}

half_precision!(F16, Bf16);

impl Ranked for Bool {
    const MOST: u64 = u32::MAX as u64;
    #[inline]
    fn rank(self) -> u64 {
        u64::from(self.get())
    }
}

/// Moves the `count` smallest of `entries` to the front, sorted.
pub(crate) fn least<E: Ord>(entries: &mut [E], count: usize) -> &[E] {
    let count = count.min(entries.len());
    if 0 < count && count < entries.len() {
        entries.select_nth_unstable(count - 1);
    }
    let smallest = &mut entries[..count];
    smallest.sort_unstable();
    smallest
}

/// Checks that positions of `len` elements fit a u32.
pub(crate) fn positions_fit(len: usize) -> Result<(), Error> {
    match u32::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(format!("{len} elements are in order, expected below 2^32"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_ascending<T: Ranked>(elements: &[T]) {
        for (i, &a) in elements.iter().enumerate() {
            for (j, &b) in elements.iter().enumerate() {
                assert_eq!(a.rank().cmp(&b.rank()), i.cmp(&j), "{a:?} and {b:?}");
                assert_eq!(a.above(b), i > j, "{a:?} above {b:?}");
                assert!(a.rank() <= T::MOST);
            }
        }
    }

    #[test]
    fn ranks_have_the_order_of_elements() {
        assert_ascending(&[i64::MIN, -1, 0, 1, i64::MAX]);
        assert_ascending(&[i8::MIN, -1, 0, 1, i8::MAX]);
        assert_ascending(&[0u16, 1, u16::MAX]);
        assert_ascending(&[
            f32::NEG_INFINITY,
            -1.5,
            -1e-40,
            0.0,
            1e-40,
            2.0,
            f32::INFINITY,
            f32::NAN,
        ]);
        assert_ascending(&[f64::MIN, -0.5, 0.0, f64::MAX, -f64::NAN]);
        assert_ascending(&[-2.0, 0.5, 3.0, f32::NAN].map(F16::from_f32));
        assert_ascending(&[-2.0, 0.5, 3.0, f32::NAN].map(Bf16::from_f32));
        assert_ascending(&[Bool(0), Bool(1)]);
        assert_eq!(((-0.0f32).rank(), (-0.0f32).above(0.0)), (0.0f32.rank(), false));
    }

    #[test]
    fn nan_is_the_smallest_for_minima() {
        assert!(f32::NAN.below(f32::NEG_INFINITY) && !1f64.below(f64::NAN) && 1f64.below(2.0));
        assert!(!f32::NAN.below(f32::NAN) && F16::from_f32(f32::NAN).below(F16::from_f32(-1.0)));
    }

    #[test]
    fn the_smallest_entries_are_sorted() {
        let mut entries = [5, 2, 9, 1, 7];
        assert_eq!(least(&mut entries, 3), [1, 2, 5]);
        assert!(least(&mut entries, 0).is_empty());
        assert_eq!(least(&mut entries, 9), [1, 2, 5, 7, 9]);
    }
}
