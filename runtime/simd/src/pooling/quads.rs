//! Sums of vectors of bytes, with four bytes per 32-bit lane.

use crate::isa::Vector;

/// An accumulator of vectors of bytes that needs no shuffles. It keeps the sums of the second and fourth bytes of each
/// lane in 16 bits each, and the sum of the lanes as 32-bit integers modulo 2^32. The sums of the first and third bytes
/// follow by subtraction.
#[derive(Clone, Copy)]
pub(super) struct Quads<S: Vector> {
    lane_sums: S::I,
    odd_sums: S::I,
}

impl<S: Vector> Quads<S> {
    /// The most vectors whose sums fit 16 bits.
    pub(super) const MAX_COUNT: usize = 257;

    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self { lane_sums: simd.splat_i(0), odd_sums: simd.splat_i(0) }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, simd: S, values: S::I) {
        let odd_sums = simd.and(simd.shr::<8>(values), simd.splat_i(0x00ff_00ff));
        self.lane_sums = simd.add_i(self.lane_sums, values);
        self.odd_sums = simd.add_i(self.odd_sums, odd_sums);
    }

    /// Returns the sums of the first bytes of each lane, of the second ones, and so on.
    #[inline(always)]
    pub(super) fn sums(self, simd: S) -> [S::I; 4] {
        let even = simd.sub_i(self.lane_sums, simd.shl::<8>(self.odd_sums));
        let low = simd.splat_i(0xffff);
        [
            simd.and(even, low),
            simd.and(self.odd_sums, low),
            simd.shr::<16>(even),
            simd.shr::<16>(self.odd_sums),
        ]
    }
}
