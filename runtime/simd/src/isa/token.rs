//! Tokens: who holds one may use the instructions of its set.

/// Plain Rust: needs no feature, so anyone may make the token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Shows that the machine has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// # Safety
    /// The machine has the features.
    #[inline]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// Shows that the machine has AVX-512 F, BW, DQ and VL, AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// # Safety
    /// The machine has the features.
    #[inline]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}
