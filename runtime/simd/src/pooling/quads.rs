//! Sums of 8-bit values, four to a lane.

use crate::isa::Vector;

/// Sums of vectors of four values per lane, without a shuffle: those of the second and fourth values in
/// 16 bits each, and those of all four values as if each vector were of 32-bit numbers, modulo 2^32, of
/// which the others are what is left.
#[derive(Clone, Copy)]
pub(super) struct Quads<S: Vector> {
    all: S::I,
    odd: S::I,
}

impl<S: Vector> Quads<S> {
    /// The most values whose sum fits 16 bits.
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

    /// The sums of the first values of each lane, of the second ones, and so on.
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
