//! Vectors of 8-bit values: maxima, and averages with 16-bit arithmetic.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, __m512i, _mm_cvtsi32_si128, _mm256_add_epi16, _mm256_and_si256, _mm256_loadu_si256,
    _mm256_max_epu8, _mm256_mulhi_epu16, _mm256_mulhrs_epi16, _mm256_or_si256, _mm256_set1_epi16,
    _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srl_epi16, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_sub_epi16, _mm512_add_epi16, _mm512_and_si512, _mm512_loadu_si512,
    _mm512_max_epu8, _mm512_mulhi_epu16, _mm512_mulhrs_epi16, _mm512_or_si512, _mm512_set1_epi16,
    _mm512_setzero_si512, _mm512_slli_epi16, _mm512_srl_epi16, _mm512_srli_epi16,
    _mm512_storeu_si512, _mm512_sub_epi16,
};

/// A vector of bytes.
///
/// # Safety
///
/// Callers must run on a machine with the vector's instruction set; pointers must be valid for `LEN` bytes.
pub(super) trait ByteVector: Copy {
    /// A 16-bit sum per value.
    type Sums: Copy;

    const LEN: usize;

    /// # Safety
    /// See the trait.
    unsafe fn zero() -> Self;
    /// # Safety
    /// See the trait.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// See the trait.
    unsafe fn max(self, other: Self) -> Self;
    /// # Safety
    /// See the trait.
    unsafe fn store(self, to: *mut u8);
    /// Returns the sums of this vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn sums(self) -> Self::Sums;
    /// # Safety
    /// See the trait.
    unsafe fn add(one: Self::Sums, other: Self::Sums) -> Self::Sums;
    /// Divides sums.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn divide(sums: Self::Sums, by: Quotient) -> Self;
}

/// Division of 16-bit sums, rounded half to even, in 16-bit arithmetic.
///
/// For small divisors, multiplies by the inverse, rounded up, and rounds half up; the error is less than a step of the
/// sum. An odd quotient is recomputed from the sum less 1, which changes it only if it was a tie.
///
/// For other divisors, adds half the divisor less 1, multiplies and rounds down. A sum halfway to the next quotient
/// lacks 1, which is added if the quotient is odd. The error is below `divisor` times the sum, and the sum below 256
/// times the divisor, so the result is exact if `256 * divisor^2 <= 2^(16 + shift)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotient {
    /// Added to every sum.
    term: u16,
    /// `2^15 / divisor` or `2^(16 + shift) / divisor`.
    inverse: u16,
    /// 0 for a small divisor.
    shift: u8,
    /// 1 for an even divisor.
    even: u16,
}

impl Quotient {
    /// The largest divisor.
    pub(super) const MOST: usize = 128;

    /// Prepares division by `divisor`, from 1 to [`Self::MOST`], of sums plus `padding`, which together are at most 255
    /// times the divisor.
    pub(super) fn by(divisor: usize, padding: usize) -> Self {
        let even = u16::from(divisor.is_multiple_of(2));
        let inverse = (1usize << 15).div_ceil(divisor).min((1 << 15) - 1);
        let error = (inverse * divisor).saturating_sub(1 << 15);
        if 255 * divisor * error < 1 << 14 {
            return Self { term: padding as u16, inverse: inverse as u16, shift: 0, even };
        }
        let mut shift = 1;
        while 256 * divisor * divisor > 1 << (16 + shift) {
            shift += 1;
        }
        Self {
            term: (padding + (divisor - 1) / 2) as u16,
            inverse: (1usize << (16 + shift)).div_ceil(divisor) as u16,
            shift,
            even,
        }
    }

    #[inline(always)]
    fn divide(self, sum: u16) -> u16 {
        let sum = sum.wrapping_add(self.term);
        let product = |sum: u16| u32::from(sum) * u32::from(self.inverse);
        if self.shift == 0 {
            let round = |sum| ((product(sum) + (1 << 14)) >> 15) as u16;
            round(sum - (round(sum) & self.even))
        } else {
            let floor = |sum| (product(sum) >> 16) as u16 >> self.shift;
            floor(sum + (floor(sum) & self.even))
        }
    }
}

/// Plain Rust.
impl<const N: usize> ByteVector for [u8; N] {
    type Sums = [u16; N];

    const LEN: usize = N;

    #[inline(always)]
    unsafe fn zero() -> Self {
        [0; N]
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: `LEN` values are readable at `from`; arrays of bytes need no alignment.
        unsafe { from.cast::<Self>().read() }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i].max(other[i]))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: `LEN` values are writable at `to`; arrays of bytes need no alignment.
        unsafe { to.cast::<Self>().write(self) }
    }
    #[inline(always)]
    unsafe fn sums(self) -> Self::Sums {
        self.map(u16::from)
    }
    #[inline(always)]
    unsafe fn add(one: Self::Sums, other: Self::Sums) -> Self::Sums {
        std::array::from_fn(|i| one[i].wrapping_add(other[i]))
    }
    #[inline(always)]
    unsafe fn divide(sums: Self::Sums, by: Quotient) -> Self {
        sums.map(|sum| by.divide(sum) as u8)
    }
}

/// Implements the trait for a vector register.
macro_rules! register {
    (
        $vector:ty, $len:literal, $zero:ident, $load:ident, $store:ident, $max:ident, $add:ident,
        $sub:ident, $and:ident, $or:ident, $set:ident, $left:ident, $right:ident, $shift:ident,
        $product:ident, $round:ident
    ) => {
        #[cfg(target_arch = "x86_64")]
        impl ByteVector for $vector {
            /// The sums of pairs as 16-bit values, modulo 2^16, and those of every second value; the sums of the other
            /// values are the difference.
            type Sums = [Self; 2];

            const LEN: usize = $len;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller has the instruction set, and `LEN` values at `from` to read.
                unsafe { $load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller has the instruction set, and `LEN` values at `to` to write.
                unsafe { $store(to.cast(), self) }
            }
            #[inline(always)]
            unsafe fn sums(self) -> Self::Sums {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                [self, unsafe { $right::<8>(self) }]
            }
            #[inline(always)]
            unsafe fn add(one: Self::Sums, other: Self::Sums) -> Self::Sums {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                unsafe { [$add(one[0], other[0]), $add(one[1], other[1])] }
            }
            #[inline(always)]
            unsafe fn divide([all, odd]: Self::Sums, by: Quotient) -> Self {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                unsafe {
                    let term = $set(by.term.cast_signed());
                    let inverse = $set(by.inverse.cast_signed());
                    let even = $set(by.even.cast_signed());
                    let shift = _mm_cvtsi32_si128(by.shift.into());
                    let low = $add($sub(all, $left::<8>(odd)), term);
                    let high = $add(odd, term);
                    let (mut low_of, mut high_of);
                    if by.shift == 0 {
                        (low_of, high_of) = ($round(low, inverse), $round(high, inverse));
                        if by.even > 0 {
                            low_of = $round($sub(low, $and(low_of, even)), inverse);
                            high_of = $round($sub(high, $and(high_of, even)), inverse);
                        }
                    } else {
                        let (below, above) = ($product(low, inverse), $product(high, inverse));
                        let (below, above) = ($shift(below, shift), $shift(above, shift));
                        low_of = $product($add(low, $and(below, even)), inverse);
                        high_of = $product($add(high, $and(above, even)), inverse);
                        (low_of, high_of) = ($shift(low_of, shift), $shift(high_of, shift));
                    }
                    $or(low_of, $left::<8>(high_of))
                }
            }
        }
    };
}

register!(
    __m256i,
    32,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_max_epu8,
    _mm256_add_epi16,
    _mm256_sub_epi16,
    _mm256_and_si256,
    _mm256_or_si256,
    _mm256_set1_epi16,
    _mm256_slli_epi16,
    _mm256_srli_epi16,
    _mm256_srl_epi16,
    _mm256_mulhi_epu16,
    _mm256_mulhrs_epi16
);
register!(
    __m512i,
    64,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_max_epu8,
    _mm512_add_epi16,
    _mm512_sub_epi16,
    _mm512_and_si512,
    _mm512_or_si512,
    _mm512_set1_epi16,
    _mm512_slli_epi16,
    _mm512_srli_epi16,
    _mm512_srl_epi16,
    _mm512_mulhi_epu16,
    _mm512_mulhrs_epi16
);
