//! Vectors of 32-bit lanes: what every instruction set must offer, and what follows from it.

use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};
use super::{erf, exp, log, rsqrt, tanh};
use crate::Isa;

/// 1.5 * 2^23: added to a float below 2^22 it leaves the nearest integer, ties to even, in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// An instruction set, as a token: who holds one may use the instructions.
///
/// The pointer methods want memory for `LANES` elements of the pointer's type, or for the first
/// `len` where they take a `len`, which is at most `LANES`; no alignment is needed.
pub(crate) trait Simd: Copy {
    /// Lanes of `f32`.
    type F: Copy;
    /// Lanes of `i32`.
    type I: Copy;
    /// One truth per lane.
    type M: Copy;

    /// Lanes per vector, 16 at most.
    const LANES: usize;
    /// Whether `fma` rounds once and is one instruction.
    const FUSED: bool;
    /// Rows and columns of the tile that `tile4` transposes.
    const TILE4: usize;
    /// Rows and columns of the tile that `tile1` transposes.
    const TILE1: usize;
    /// Rows that `long1` transposes, a multiple of `TILE1`; `TILE1` divides 16.
    const LONG1: usize;

    fn splat(self, x: f32) -> Self::F;
    fn splat_i(self, x: i32) -> Self::I;

    /// # Safety
    /// See the trait.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// # Safety
    /// See the trait.
    unsafe fn store(self, to: *mut f32, x: Self::F);
    /// The lanes from `len` on are `fill`'s.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load_head(self, from: *const f32, len: usize, fill: Self::F) -> Self::F;
    /// # Safety
    /// See the trait.
    unsafe fn store_head(self, to: *mut f32, len: usize, x: Self::F);
    /// # Safety
    /// See the trait.
    unsafe fn load_u8(self, from: *const u8) -> Self::I;
    /// # Safety
    /// See the trait.
    unsafe fn load_u16(self, from: *const u16) -> Self::I;
    /// Stores the low byte of every lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_u8(self, to: *mut u8, x: Self::I);
    /// Stores the low half of every lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_u16(self, to: *mut u16, x: Self::I);

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`.
    fn nfma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn sqrt(self, x: Self::F) -> Self::F;
    /// The lesser one; `b` where either is a NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The greater one; `b` where either is a NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a < b`, false for a NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`, false for a NaN.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    fn any(self, mask: Self::M) -> bool;

    /// The bits of floats.
    fn bits(self, x: Self::F) -> Self::I;
    /// The floats of bits.
    fn float(self, x: Self::I) -> Self::F;
    /// The nearest float to an integer.
    fn int_to_float(self, x: Self::I) -> Self::F;
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    fn shl<const BY: u32>(self, x: Self::I) -> Self::I;
    /// Shifts zeros in.
    fn shr<const BY: u32>(self, x: Self::I) -> Self::I;
    /// Shifts copies of the sign in.
    fn sar<const BY: u32>(self, x: Self::I) -> Self::I;
    fn lt_i(self, a: Self::I, b: Self::I) -> Self::M;

    /// The sum of all lanes, added pairwise.
    fn sum(self, x: Self::F) -> f32;

    /// The sums of four vectors, each added pairwise.
    #[inline(always)]
    fn sum4(self, x: [Self::F; 4]) -> [f32; 4] {
        [self.sum(x[0]), self.sum(x[1]), self.sum(x[2]), self.sum(x[3])]
    }
    /// As [`Simd::sum4`], in every four lanes.
    #[inline(always)]
    fn sums4(self, x: [Self::F; 4]) -> Self::F {
        let [a, b, c, d] = self.sum4(x);
        let lanes = [a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d];
        // SAFETY: a vector has 16 lanes at most.
        unsafe { self.load(lanes.as_ptr()) }
    }
    /// Each of the first four lanes, of every four the same, in all lanes.
    #[inline(always)]
    fn spread4(self, x: Self::F) -> [Self::F; 4] {
        let mut lanes = [0.0; 16];
        // SAFETY: a vector has 16 lanes at most.
        unsafe { self.store(lanes.as_mut_ptr(), x) }
        [self.splat(lanes[0]), self.splat(lanes[1]), self.splat(lanes[2]), self.splat(lanes[3])]
    }
    /// The greatest lane; where there is a NaN, any lane.
    fn max_lane(self, x: Self::F) -> f32;
    /// The greatest lanes of four vectors.
    #[inline(always)]
    fn max4(self, x: [Self::F; 4]) -> [f32; 4] {
        [self.max_lane(x[0]), self.max_lane(x[1]), self.max_lane(x[2]), self.max_lane(x[3])]
    }

    /// Brings the line at `at` into the first cache; any address will do.
    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        let _ = at;
    }

    /// The exponential function, to 1.1 ulp.
    #[inline(always)]
    fn exp(self, x: Self::F) -> Self::F {
        exp::exp_of(self, x)
    }
    /// The natural logarithm, to 1 ulp.
    #[inline(always)]
    fn log(self, x: Self::F) -> Self::F {
        log::log_of(self, x)
    }
    /// The hyperbolic tangent, to 2.5 ulp.
    #[inline(always)]
    fn tanh(self, x: Self::F) -> Self::F {
        tanh::tanh_of(self, x)
    }
    /// The error function, to 1.2 ulp.
    #[inline(always)]
    fn erf(self, x: Self::F) -> Self::F {
        erf::erf_of(self, x)
    }
    /// `1 / sqrt(x)`, to 1.5 ulp.
    #[inline(always)]
    fn rsqrt(self, x: Self::F) -> Self::F {
        rsqrt::rsqrt_of(self, x)
    }

    /// Transposes a tile of 4-byte elements; strides are in elements.
    ///
    /// # Safety
    /// `TILE4` rows of as many elements are readable and writable at these strides.
    unsafe fn tile4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize);
    /// As [`Simd::tile4`], and reads the tiles at `ahead` of `x` and of `y` ahead; any addresses will do.
    ///
    /// # Safety
    /// As for [`Simd::tile4`].
    #[inline(always)]
    unsafe fn tile4_ahead(
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
        // SAFETY: the caller's promise.
        unsafe { self.tile4(x, x_stride, y, y_stride) }
    }
    /// As [`Simd::tile4`] for four rows of four elements.
    ///
    /// # Safety
    /// Four rows of as many elements are readable and writable at these strides.
    #[inline(always)]
    unsafe fn quad4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        for i in 0..4 {
            for j in 0..4 {
                // SAFETY: rows and columns below 4.
                let from = unsafe { x.add(i * x_stride + j) };
                // SAFETY: as above.
                let to = unsafe { y.add(j * y_stride + i) };
                // SAFETY: as above; elements need not be aligned.
                unsafe { to.cast::<[u8; 4]>().copy_from_nonoverlapping(from.cast(), 1) }
            }
        }
    }
    /// As [`Simd::tile4`] for `rows` times `cols` elements, each from 1 to `TILE4`.
    ///
    /// # Safety
    /// So many elements are readable and writable at these strides.
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
                // SAFETY: below `rows` and `cols`.
                let from = unsafe { x.add(i * x_stride + j) };
                // SAFETY: as above.
                let to = unsafe { y.add(j * y_stride + i) };
                // SAFETY: as above; elements need not be aligned.
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

    /// As [`Simd::tile4_ahead`], past the caches where that can be; [`Simd::fence`] must follow.
    ///
    /// # Safety
    /// As for [`Simd::tile4`]; the rows of `y` start at lines.
    #[inline(always)]
    unsafe fn tile4_past(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        ahead: *const u32,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.tile4_ahead(x, x_stride, y, y_stride, [ahead, y.cast_const()]) }
    }
    /// As [`Simd::long1`], past the caches where that can be; [`Simd::fence`] must follow.
    ///
    /// # Safety
    /// As for [`Simd::long1`]; the rows of `y` start at lines.
    #[inline(always)]
    unsafe fn long1_past(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.long1(x, x_stride, y, y_stride) }
    }
    /// Orders what went past the caches before all later writes.
    #[inline(always)]
    fn fence(self) {}

    /// The nearest integer, ties to even, for floats below 2^22.
    #[inline(always)]
    fn to_int(self, x: Self::F) -> Self::I {
        let magic = self.splat(MAGIC);
        self.sub_i(self.bits(self.add(x, magic)), self.bits(magic))
    }

    /// The nearest whole number, ties to even, for floats below 2^22.
    #[inline(always)]
    fn round(self, x: Self::F) -> Self::F {
        let magic = self.splat(MAGIC);
        self.sub(self.add(x, magic), magic)
    }

    /// `x * 2^n` for whole `n` in -250..=250, rounded once.
    #[inline(always)]
    fn scale(self, x: Self::F, n: Self::F) -> Self::F {
        let n = self.to_int(n);
        let half = self.sar::<1>(n);
        self.mul(self.mul(x, self.power(half)), self.power(self.sub_i(n, half)))
    }

    /// `2^n` for `n` in -126..=127.
    #[inline(always)]
    fn power(self, n: Self::I) -> Self::F {
        self.float(self.shl::<23>(self.add_i(n, self.splat_i(127))))
    }

    #[inline(always)]
    fn abs(self, x: Self::F) -> Self::F {
        self.float(self.and(self.bits(x), self.splat_i(i32::MAX)))
    }

    /// `size`, which has no sign, with the sign of `sign`.
    #[inline(always)]
    fn with_sign(self, size: Self::F, sign: Self::F) -> Self::F {
        let sign = self.and(self.bits(sign), self.splat_i(i32::MIN));
        self.float(self.or(self.bits(size), sign))
    }

    #[inline(always)]
    fn select_i(self, mask: Self::M, yes: Self::I, no: Self::I) -> Self::I {
        self.bits(self.select(mask, self.float(yes), self.float(no)))
    }

    /// A polynomial by Horner's rule, the highest power first.
    #[inline(always)]
    fn poly<const N: usize>(self, x: Self::F, coefficients: [f32; N]) -> Self::F {
        let mut sum = self.splat(0.0);
        let mut i = 0;
        while i < N {
            let term = self.splat(coefficients[i]);
            sum = if i == 0 { term } else { self.fma(sum, x, term) };
            i += 1;
        }
        sum
    }

    /// Reads halves of IEEE 754, exactly.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller's promise.
        let half = unsafe { self.load_u16(from) };
        let size = self.and(half, self.splat_i(0x7fff));
        // Moved to the upper end, exponents are off by 112; the multiplication also normalizes.
        let moved = self.shl::<13>(size);
        let finite = self.mul(self.float(moved), self.splat(f32::from_bits((127 + 112) << 23)));
        let endless = self.float(self.or(moved, self.splat_i(0x7f80_0000)));
        let is_finite = self.lt_i(size, self.splat_i(0x7c00));
        let size = self.bits(self.select(is_finite, finite, endless));
        let sign = self.shl::<16>(self.and(half, self.splat_i(0x8000)));
        self.float(self.or(size, sign))
    }

    /// Writes halves of IEEE 754, ties to even, too large ones as infinity, NaNs quiet.
    ///
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, x: Self::F) {
        let bits = self.bits(x);
        let size = self.and(bits, self.splat_i(i32::MAX));
        let odd = self.and(self.shr::<13>(size), self.splat_i(1));
        let rebased = self.add_i(size, self.splat_i(0xfff - (112 << 23)));
        let normal = self.shr::<13>(self.add_i(rebased, odd));
        // Beside 0.5, the unit in the last place is the smallest half.
        let half = self.splat(0.5);
        let small = self.sub_i(self.bits(self.add(self.float(size), half)), self.bits(half));
        let is_small = self.lt_i(size, self.splat_i(0x3880_0000));
        let finite = self.select_i(is_small, small, normal);
        let is_nan = self.lt_i(self.splat_i(0x7f80_0000), size);
        let payload =
            self.or(self.and(self.shr::<13>(size), self.splat_i(0x3ff)), self.splat_i(0x7e00));
        let endless = self.select_i(is_nan, payload, self.splat_i(0x7c00));
        let is_finite = self.lt_i(size, self.splat_i(0x4780_0000));
        let sign = self.and(self.shr::<16>(bits), self.splat_i(0x8000));
        let half = self.or(self.select_i(is_finite, finite, endless), sign);
        // SAFETY: the caller's promise.
        unsafe { self.store_u16(to, half) }
    }
}

/// Work that is written once and compiled for every instruction set.
pub(crate) trait Task {
    type Out;

    /// Must be `#[inline(always)]`, as all that it calls, so that it takes on the features of its caller.
    fn run<S: Simd>(self, simd: S) -> Self::Out;
}

/// Runs a task with the instructions of `isa`, or the best that this machine has.
#[inline]
pub(crate) fn on<T: Task>(isa: Isa, task: T) -> T::Out {
    let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
    match isa.min(best) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has it, as `best` says.
        Isa::Avx512 | Isa::Amx => unsafe { on_avx512(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { on_avx2(task) },
        _ => task.run(Portable),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn on_avx512<T: Task>(task: T) -> T::Out {
    // SAFETY: this function has the features.
    task.run(unsafe { Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn on_avx2<T: Task>(task: T) -> T::Out {
    // SAFETY: this function has the features.
    task.run(unsafe { Avx2::new() })
}
