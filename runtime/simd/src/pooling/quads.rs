//! Sums of bytes, four per 32-bit lane.

use crate::isa::Vector;

/// Adds vectors of four bytes per lane without shuffles. It keeps the sums of the second and fourth bytes in 16 bits
/// each, and the sum of whole 32-bit lanes modulo 2^32; the sums of the first and third bytes follow by subtraction.
#[derive(Clone, Copy)]
pub(super) struct Quads<S: Vector> {
    all: S::I,
    odd: S::I,
}

impl<S: Vector> Quads<S> {
    /// The most vectors whose sums fit 16 bits.
    pub(super) const MAX_COUNT: usize = 257;

    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self { all: simd.splat_i(0), odd: simd.splat_i(0) }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, simd: S, values: S::I) {
        let odd = simd.and(simd.shr::<8>(values), simd.splat_i(0x00ff_00ff));
        self.all = simd.add_i(self.all, values);
        self.odd = simd.add_i(self.odd, odd);
    }

    /// Returns the sums of the first bytes of each lane, of the second ones, and so on.
    #[inline(always)]
    pub(super) fn sums(self, simd: S) -> [S::I; 4] {
        let even = simd.sub_i(self.all, simd.shl::<8>(self.odd));
        let low = simd.splat_i(0xffff);
        [
            simd.and(even, low),
            simd.and(self.odd, low),
            simd.shr::<16>(even),
            simd.shr::<16>(self.odd),
        ]
    }
}
