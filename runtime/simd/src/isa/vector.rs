//! The trait of instruction sets with memory access, for the crate's own loops: loads, stores, and transposes of tiles
//! (small square blocks of a matrix).

use super::simd::Simd;

/// An instruction set with memory access.
///
/// Pointer methods require memory for `LANES` elements of the pointer's type, or for the first `len` if they take a
/// `len`, which is at most `LANES`. No alignment is required.
pub(crate) trait Vector: Simd {
    /// Rows and columns of a tile of `tile4`.
    const TILE4: usize;
    /// Rows and columns of a tile of `tile1`.
    const TILE1: usize;
    /// Rows of a block of `long1`, a multiple of `TILE1`; `TILE1` divides 16.
    const LONG1: usize;

    /// Loads a vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// Stores a vector.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store(self, to: *mut f32, x: Self::F);
    /// Loads the first `len` lanes; the others are those of `fill`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load_tail(self, from: *const f32, len: usize, fill: Self::F) -> Self::F;
    /// Stores the first `len` lanes.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_tail(self, to: *mut f32, len: usize, x: Self::F);
    /// Loads a byte into each lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load_u8(self, from: *const u8) -> Self::I;
    /// Loads a `u16` into each lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load_u16(self, from: *const u16) -> Self::I;
    /// Stores the low byte of every lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_u8(self, to: *mut u8, x: Self::I);
    /// Stores the low 16 bits of every lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_u16(self, to: *mut u16, x: Self::I);

    /// Stores the lanes of four vectors, saturated to `u8`, or to `i8` if `signed`.
    ///
    /// # Safety
    /// Four times `LANES` bytes are writable at `to`.
    #[inline(always)]
    unsafe fn store_saturated(self, to: *mut u8, x: [Self::I; 4], signed: bool) {
        let (minimum, maximum) = if signed { (-128, 127) } else { (0, 255) };
        let (minimum, maximum) = (self.splat_i(minimum), self.splat_i(maximum));
        for (i, x) in x.into_iter().enumerate() {
            let x = self.select_i(self.lt_i(x, minimum), minimum, x);
            let x = self.select_i(self.lt_i(maximum, x), maximum, x);
            // SAFETY: four times `LANES` bytes are writable at `to`.
            unsafe { self.store_u8(to.wrapping_add(i * Self::LANES), x) }
        }
    }

    /// Dequantizes 4-bit values: returns the low four bits of each lane as an integer, times `scale`, plus `zero`.
    #[inline(always)]
    fn dequantize_4bit(self, x: Self::I, scale: Self::F, zero: Self::F) -> Self::F {
        self.fma(self.int_to_float(self.and(x, self.splat_i(15))), scale, zero)
    }

    /// Returns the sum of the lanes of each of four vectors, added pairwise.
    #[inline(always)]
    fn sum4(self, x: [Self::F; 4]) -> [f32; 4] {
        [self.sum(x[0]), self.sum(x[1]), self.sum(x[2]), self.sum(x[3])]
    }
    /// Like [`Vector::sum4`], repeated in every group of four lanes.
    #[inline(always)]
    fn sums4(self, x: [Self::F; 4]) -> Self::F {
        let [a, b, c, d] = self.sum4(x);
        let lanes = [a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d];
        // SAFETY: a vector has 16 lanes at most.
        unsafe { self.load(lanes.as_ptr()) }
    }
    /// Broadcasts each of the first four lanes; every group of four lanes holds the same values.
    #[inline(always)]
    fn broadcast4(self, x: Self::F) -> [Self::F; 4] {
        let mut lanes = [0.0; 16];
        // SAFETY: a vector has 16 lanes at most.
        unsafe { self.store(lanes.as_mut_ptr(), x) }
        [self.splat(lanes[0]), self.splat(lanes[1]), self.splat(lanes[2]), self.splat(lanes[3])]
    }
    /// Returns the largest lanes of four vectors.
    #[inline(always)]
    fn max4(self, x: [Self::F; 4]) -> [f32; 4] {
        [self.max_lane(x[0]), self.max_lane(x[1]), self.max_lane(x[2]), self.max_lane(x[3])]
    }

    /// Prefetches the cache line at this address into the first-level cache; any address is permitted.
    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        let _ = at;
    }

    /// Transposes a tile of 4-byte elements from `x` to `y`; strides are in elements.
    ///
    /// # Safety
    /// `TILE4` rows of as many elements are readable and writable at these strides.
    unsafe fn tile4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize);
    /// Like [`Vector::tile4`], and prefetches the tiles at `ahead` of `x` and of `y`; any addresses are permitted.
    ///
    /// # Safety
    /// As for [`Vector::tile4`].
    #[inline(always)]
    unsafe fn tile4_prefetch(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        ahead: [*const u32; 2],
    ) {
        let mut k = 0;
        while k < Self::TILE4 {
            self.prefetch(ahead[0].wrapping_add(k * x_stride).cast());
            self.prefetch(ahead[1].wrapping_add(k * y_stride).cast());
            k += 1;
        }
        // SAFETY: `TILE4` rows of as many elements are readable at `x` and writable at `y`.
        unsafe { self.tile4(x, x_stride, y, y_stride) }
    }
    /// Like [`Vector::tile4`], for four rows of four elements.
    ///
    /// # Safety
    /// Four rows of as many elements are readable and writable at these strides.
    #[inline(always)]
    unsafe fn quad4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        for i in 0..4 {
            for j in 0..4 {
                // SAFETY: rows and columns below 4.
                let from = unsafe { x.add(i * x_stride + j) };
                // SAFETY: column `j` and row `i` of `y` are below 4.
                let to = unsafe { y.add(j * y_stride + i) };
                // SAFETY: one element is readable at `from` and writable at `to`, which need not be aligned.
                unsafe { to.cast::<[u8; 4]>().copy_from_nonoverlapping(from.cast(), 1) }
            }
        }
    }
    /// Like [`Vector::tile4`], for `rows` by `cols` elements, each from 1 to `TILE4`.
    ///
    /// # Safety
    /// `rows` by `cols` elements are readable and writable at these strides.
    #[inline(always)]
    unsafe fn part4(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        rows: usize,
        cols: usize,
    ) {
        let (rows4, cols4) = (rows / 4 * 4, cols / 4 * 4);
        for i in (0..rows4).step_by(4) {
            for j in (0..cols4).step_by(4) {
                let (from, to) =
                    (x.wrapping_add(i * x_stride + j), y.wrapping_add(j * y_stride + i));
                // SAFETY: four rows and columns from `i` and `j` on.
                unsafe { self.quad4(from, x_stride, to, y_stride) }
            }
        }
        for j in 0..cols {
            for i in if j < cols4 { rows4 } else { 0 }..rows {
                // SAFETY: `i` and `j` are below `rows` and `cols`, so the element is inside `x`.
                let from = unsafe { x.add(i * x_stride + j) };
                // SAFETY: so does the element of row `j` and column `i` of `y`.
                let to = unsafe { y.add(j * y_stride + i) };
                // SAFETY: one element is readable at `from` and writable at `to`, which need not be aligned.
                unsafe { to.cast::<[u8; 4]>().copy_from_nonoverlapping(from.cast(), 1) }
            }
        }
    }
    /// Transposes `LONG1` rows of 16 1-byte elements; strides are in elements.
    ///
    /// # Safety
    /// `LONG1` rows of 16 elements are readable and 16 of `LONG1` writable at these strides.
    unsafe fn long1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize);
    /// Transposes a tile of 1-byte elements; strides are in elements.
    ///
    /// # Safety
    /// `TILE1` rows of as many elements are readable and writable at these strides.
    unsafe fn tile1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize);

    /// Like [`Vector::tile4_prefetch`], with non-temporal stores if available; [`Vector::fence`] must follow.
    ///
    /// # Safety
    /// As for [`Vector::tile4`]; the rows of `y` start at cache lines.
    #[inline(always)]
    unsafe fn tile4_stream(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        ahead: *const u32,
    ) {
        // SAFETY: `TILE4` rows of as many elements are readable at `x` and writable at `y`, at lines.
        unsafe { self.tile4_prefetch(x, x_stride, y, y_stride, [ahead, y.cast_const()]) }
    }
    /// Like [`Vector::long1`], with non-temporal stores if available; [`Vector::fence`] must follow.
    ///
    /// # Safety
    /// As for [`Vector::long1`]; the rows of `y` start at cache lines.
    #[inline(always)]
    unsafe fn long1_stream(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: `LONG1` rows of 16 bytes are readable at `x` and 16 of `LONG1` writable at `y`, at
        // lines.
        unsafe { self.long1(x, x_stride, y, y_stride) }
    }
    /// Orders non-temporal stores before all later stores.
    #[inline(always)]
    fn fence(self) {}

    /// Loads IEEE 754 half-precision values, exactly.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F {
        // SAFETY: `LANES` u16 are readable at `from`.
        let bits = unsafe { self.load_u16(from) };
        let magnitude = self.and(bits, self.splat_i(0x7fff));
        // The exponent biases of f32 and f16 differ by 127 - 15 = 112. The multiplication corrects the shifted exponent
        // by that, and normalizes denormals.
        let shifted = self.shl::<13>(magnitude);
        let finite = self.mul(self.float(shifted), self.splat(f32::from_bits((127 + 112) << 23)));
        let infinite_or_nan = self.float(self.or(shifted, self.splat_i(0x7f80_0000)));
        let is_finite = self.lt_i(magnitude, self.splat_i(0x7c00));
        let magnitude = self.bits(self.select(is_finite, finite, infinite_or_nan));
        let sign = self.shl::<16>(self.and(bits, self.splat_i(0x8000)));
        self.float(self.or(magnitude, sign))
    }

    /// Stores IEEE 754 half-precision values: ties to even, overflow to infinity, NaN quiet.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, x: Self::F) {
        let bits = self.bits(x);
        let magnitude = self.and(bits, self.splat_i(i32::MAX));
        let lowest_bit = self.and(self.shr::<13>(magnitude), self.splat_i(1));
        // Corrects the exponent bias by 112, and rounds: adds half a unit in the last place, minus one if that is even.
        let rebased = self.add_i(magnitude, self.splat_i(0xfff - (112 << 23)));
        let normal = self.shr::<13>(self.add_i(rebased, lowest_bit));
        // A denormal result: the unit in the last place of 0.5 is the smallest half-precision value, so that adding 0.5
        // rounds to a multiple of it.
        let half = self.splat(0.5);
        let small = self.sub_i(self.bits(self.add(self.float(magnitude), half)), self.bits(half));
        let is_small = self.lt_i(magnitude, self.splat_i(0x3880_0000));
        let finite = self.select_i(is_small, small, normal);
        let is_nan = self.lt_i(self.splat_i(0x7f80_0000), magnitude);
        let payload =
            self.or(self.and(self.shr::<13>(magnitude), self.splat_i(0x3ff)), self.splat_i(0x7e00));
        let infinite_or_nan = self.select_i(is_nan, payload, self.splat_i(0x7c00));
        let is_finite = self.lt_i(magnitude, self.splat_i(0x4780_0000));
        let sign = self.and(self.shr::<16>(bits), self.splat_i(0x8000));
        let result = self.or(self.select_i(is_finite, finite, infinite_or_nan), sign);
        // SAFETY: `LANES` u16 are writable at `to`.
        unsafe { self.store_u16(to, result) }
    }
}
