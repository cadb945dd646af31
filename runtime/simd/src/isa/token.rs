//! Tokens: values whose existence proves that the machine supports an instruction set. A function that takes a token
//! can use the set's instructions safely; only `dispatch` creates tokens of optional sets.

/// The token of plain Rust, which needs no CPU feature, so that it can be constructed anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// The token of AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// Creates the token.
    ///
    /// # Safety
    /// The machine has the features.
    #[inline]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// The token of AVX-512 F, BW, DQ and VL, AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Creates the token.
    ///
    /// # Safety
    /// The machine has the features.
    #[inline]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}
