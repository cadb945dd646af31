//! Vectors of 8-bit values for pooling: maxima, and averages with 16-bit arithmetic.

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

/// A vector of bytes, in a register or as an array.
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
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums;
    /// Divides sums.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn divide(sums: Self::Sums, by: Quotient) -> Self;
}

/// Division of 16-bit sums, rounded half to even, in 16-bit arithmetic.
///
/// Division uses multiplication by the inverse, in one of two ways:
///
/// * A small divisor: the inverse is rounded up, and the product is rounded half up. The error is less than the change
///   of the quotient when the sum changes by 1. To round ties to even, an odd quotient is computed again from the sum
///   minus 1, which gives another quotient only for a tie.
/// * Another divisor: half the divisor minus 1 is added, and the product is rounded down. A tie then gives the lower
///   quotient; if that is odd, 1 is added to the sum, and the quotient is computed again. In units of `2^(16 + shift)`,
///   the error of the product is below `divisor` times the sum, and the sum is below 256 times the divisor, so that the
///   result is exact if `256 * divisor^2 <= 2^(16 + shift)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotient {
    /// Added to every sum.
    term: u16,
    /// `2^15 / divisor` or `2^(16 + shift) / divisor`.
    inverse: u16,
    /// Shift of the high half of the product; 0 for a small divisor.
    shift: u8,
    /// 1 for an even divisor.
    even: u16,
}

impl Quotient {
    /// The largest divisor.
    pub(super) const MAX_DIVISOR: usize = 128;

    /// Prepares division by `divisor`, from 1 to [`Self::MAX_DIVISOR`], of sums plus `padding_sum`, the sum of the
    /// padding's values. Together they are at most 255 times the divisor.
    pub(super) fn new(divisor: usize, padding_sum: usize) -> Self {
        let even = u16::from(divisor.is_multiple_of(2));
        let inverse = (1usize << 15).div_ceil(divisor).min((1 << 15) - 1);
        let error = (inverse * divisor).saturating_sub(1 << 15);
        if 255 * divisor * error < 1 << 14 {
            return Self { term: padding_sum as u16, inverse: inverse as u16, shift: 0, even };
        }
        let mut shift = 1;
        while 256 * divisor * divisor > 1 << (16 + shift) {
            shift += 1;
        }
        Self {
            term: (padding_sum + (divisor - 1) / 2) as u16,
            inverse: (1usize << (16 + shift)).div_ceil(divisor) as u16,
            shift,
            even,
        }
    }

    /// Returns the quotient of one sum.
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
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
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
            /// The sum of 16-bit lanes modulo 2^16, and the sum of the high byte of each lane. The sum of the low bytes
            /// follows by subtraction.
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
            unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                unsafe { [$add(a[0], b[0]), $add(a[1], b[1])] }
            }
            #[inline(always)]
            unsafe fn divide([lane_sums, odd_sums]: Self::Sums, by: Quotient) -> Self {
                // SAFETY: the caller has the instruction set; no memory is accessed.
                unsafe {
                    let term = $set(by.term.cast_signed());
                    let inverse = $set(by.inverse.cast_signed());
                    let even = $set(by.even.cast_signed());
                    let shift = _mm_cvtsi32_si128(by.shift.into());
                    let low = $add($sub(lane_sums, $left::<8>(odd_sums)), term);
                    let high = $add(odd_sums, term);
                    let (mut low_result, mut high_result);
                    if by.shift == 0 {
                        (low_result, high_result) = ($round(low, inverse), $round(high, inverse));
                        if by.even > 0 {
                            low_result = $round($sub(low, $and(low_result, even)), inverse);
                            high_result = $round($sub(high, $and(high_result, even)), inverse);
                        }
                    } else {
                        let (low_quotient, high_quotient) =
                            ($product(low, inverse), $product(high, inverse));
                        let (low_quotient, high_quotient) =
                            ($shift(low_quotient, shift), $shift(high_quotient, shift));
                        low_result = $product($add(low, $and(low_quotient, even)), inverse);
                        high_result = $product($add(high, $and(high_quotient, even)), inverse);
                        (low_result, high_result) =
                            ($shift(low_result, shift), $shift(high_result, shift));
                    }
                    $or(low_result, $left::<8>(high_result))
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
