//! Tokens: having one permits use of the instructions of its set.

/// Plain Rust needs no CPU feature, so the token can be constructed anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Implies that the machine has AVX2, FMA and F16C.
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

/// Implies that the machine has AVX-512 F, BW, DQ and VL, AVX2, FMA and F16C.
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
