//! Vectors of 8-bit codes.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm256_max_epu8, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm512_loadu_si512, _mm512_max_epu8, _mm512_setzero_si512,
    _mm512_storeu_si512,
};

/// A vector of codes.
///
/// # Safety
///
/// Whoever uses one has its instruction set; pointers have memory for `LEN` codes.
pub(super) trait Bytes: Copy {
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
}

/// Plain Rust.
impl<const N: usize> Bytes for [u8; N] {
    const LEN: usize = N;

    #[inline(always)]
    unsafe fn zero() -> Self {
        [0; N]
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Self>().read() }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i].max(other[i]))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Self>().write(self) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Bytes for __m256i {
    const LEN: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_max_epu8(self, other) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Bytes for __m512i {
    const LEN: usize = 64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_max_epu8(self, other) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }
}
