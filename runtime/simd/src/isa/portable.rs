//! The portable instruction set: arrays of lanes in plain Rust, which the compiler vectorizes for the target.

use super::elementary::{by_formula, erf, exp, log, rsqrt, sigmoid, tanh, trig};
use super::simd::{Simd, sealed::Sealed};
use super::token::Portable;
use super::vector::Vector;

const LANES: usize = 8;

/// Returns `f` of each lane.
#[inline(always)]
fn each<T: Copy, U: Copy + Default>(x: [T; LANES], f: impl Fn(T) -> U) -> [U; LANES] {
    let mut y = [U::default(); LANES];
    let mut i = 0;
    while i < LANES {
        y[i] = f(x[i]);
        i += 1;
    }
    y
}

/// Returns `f` of each pair of lanes.
#[inline(always)]
fn both<T: Copy, U: Copy + Default>(
    a: [T; LANES],
    b: [T; LANES],
    f: impl Fn(T, T) -> U,
) -> [U; LANES] {
    let mut y = [U::default(); LANES];
    let mut i = 0;
    while i < LANES {
        y[i] = f(a[i], b[i]);
        i += 1;
    }
    y
}

/// Returns a lane of a mask: all bits set for true.
#[inline(always)]
fn mask(x: bool) -> i32 {
    -i32::from(x)
}

/// Transposes a tile of `LANES` rows and columns.
///
/// # Safety
/// The rows are readable at `x` and writable at `y`, at these strides.
#[inline(always)]
unsafe fn tile<T: Copy>(x: *const T, x_stride: usize, y: *mut T, y_stride: usize) {
    for i in 0..LANES {
        for j in 0..LANES {
            // SAFETY: `i` and `j` are below the tile's side: `x` has that row and column at `x_stride`, `y` its
            // transpose at `y_stride`. Elements need not be aligned.
            unsafe {
                let value = x.add(i * x_stride + j).read_unaligned();
                y.add(j * y_stride + i).write_unaligned(value);
            }
        }
    }
}

impl Sealed for Portable {}

impl Simd for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type M = [i32; LANES];

    const LANES: usize = LANES;
    const FUSED: bool = false;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        [x; LANES]
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        self.sub(c, self.mul(a, b))
    }
    #[inline(always)]
    fn sqrt(self, x: Self::F) -> Self::F {
        each(x, f32::sqrt)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        both(a, b, |a, b| mask(a < b))
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        both(a, b, |a, b| mask(a == b))
    }
    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F {
        let yes = both(mask, self.bits(yes), |m, x| m & x);
        self.float(both(yes, both(mask, self.bits(no), |m, x| !m & x), |a, b| a | b))
    }
    #[inline(always)]
    fn any(self, mask: Self::M) -> bool {
        mask.iter().fold(0, |bits, lane| bits | lane) != 0
    }
    #[inline(always)]
    fn bits(self, x: Self::F) -> Self::I {
        each(x, |x| x.to_bits().cast_signed())
    }
    #[inline(always)]
    fn float(self, x: Self::I) -> Self::F {
        each(x, |x| f32::from_bits(x.cast_unsigned()))
    }
    #[inline(always)]
    fn int_to_float(self, x: Self::I) -> Self::F {
        each(x, |x| x as f32)
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn and(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn xor(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn shl<const BY: u32>(self, x: Self::I) -> Self::I {
        each(x, |x| x << BY)
    }
    #[inline(always)]
    fn shr<const BY: u32>(self, x: Self::I) -> Self::I {
        each(x, |x| (x.cast_unsigned() >> BY).cast_signed())
    }
    #[inline(always)]
    fn sar<const BY: u32>(self, x: Self::I) -> Self::I {
        each(x, |x| x >> BY)
    }
    #[inline(always)]
    fn lt_i(self, a: Self::I, b: Self::I) -> Self::M {
        both(a, b, |a, b| mask(a < b))
    }
    #[inline(always)]
    fn sum(self, x: Self::F) -> f32 {
        ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    }
    #[inline(always)]
    fn max_lane(self, x: Self::F) -> f32 {
        x.into_iter().fold(f32::NEG_INFINITY, |max, x| if x > max { x } else { max })
    }
    #[inline(always)]
    fn of_array(self, lanes: [f32; 16]) -> Self::F {
        // SAFETY: `lanes` has 16 readable values, and a vector has 16 lanes at most.
        unsafe { self.load(lanes.as_ptr()) }
    }
    #[inline(always)]
    fn to_array(self, x: Self::F) -> [f32; 16] {
        let mut lanes = [0.0; 16];
        // SAFETY: `lanes` has 16 writable values, and a vector has 16 lanes at most.
        unsafe { self.store(lanes.as_mut_ptr(), x) }
        lanes
    }
    #[inline(always)]
    fn round(self, x: Self::F) -> Self::F {
        each(x, f32::round_ties_even)
    }
    #[inline(always)]
    fn floor(self, x: Self::F) -> Self::F {
        each(x, f32::floor)
    }
    #[inline(always)]
    fn ceil(self, x: Self::F) -> Self::F {
        each(x, f32::ceil)
    }
    #[inline(always)]
    fn trunc(self, x: Self::F) -> Self::F {
        each(x, f32::trunc)
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        both(a, b, |a, b| mask(a <= b))
    }
    #[inline(always)]
    fn mask_and(self, a: Self::M, b: Self::M) -> Self::M {
        both(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn mask_or(self, a: Self::M, b: Self::M) -> Self::M {
        both(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn mask_not(self, mask: Self::M) -> Self::M {
        each(mask, |m| !m)
    }

    by_formula! {
        exp = exp::exp_of,
        log = log::log_of,
        tanh = tanh::tanh_of,
        sigmoid = sigmoid::sigmoid_of,
        erf = erf::erf_of,
        sin = trig::sin_of,
        cos = trig::cos_of,
        rsqrt = rsqrt::rsqrt_of,
    }
}

impl Vector for Portable {
    const TILE4: usize = LANES;
    const TILE1: usize = LANES;
    const LONG1: usize = LANES;
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F {
        // SAFETY: `LANES` f32 are readable at `from`.
        unsafe { from.cast::<Self::F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: Self::F) {
        // SAFETY: `LANES` f32 are writable at `to`.
        unsafe { to.cast::<Self::F>().write_unaligned(x) }
    }
    #[inline(always)]
    unsafe fn load_tail(self, from: *const f32, len: usize, fill: Self::F) -> Self::F {
        let mut x = fill;
        for (i, x) in x.iter_mut().enumerate().take(len) {
            // SAFETY: `i` is below `len`.
            *x = unsafe { *from.add(i) };
        }
        x
    }
    #[inline(always)]
    unsafe fn store_tail(self, to: *mut f32, len: usize, x: Self::F) {
        for (i, x) in x.iter().enumerate().take(len) {
            // SAFETY: `i` is below `len`.
            unsafe { *to.add(i) = *x }
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> Self::I {
        // SAFETY: `LANES` bytes are readable at `from`.
        each(unsafe { from.cast::<[u8; LANES]>().read_unaligned() }, i32::from)
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> Self::I {
        // SAFETY: `LANES` u16 are readable at `from`.
        each(unsafe { from.cast::<[u16; LANES]>().read_unaligned() }, i32::from)
    }
    #[inline(always)]
    unsafe fn store_u8(self, to: *mut u8, x: Self::I) {
        // SAFETY: `LANES` bytes are writable at `to`.
        unsafe { to.cast::<[u8; LANES]>().write_unaligned(each(x, |x| x as u8)) }
    }
    #[inline(always)]
    unsafe fn store_u16(self, to: *mut u16, x: Self::I) {
        // SAFETY: `LANES` u16 are writable at `to`.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(each(x, |x| x as u16)) }
    }
    #[inline(always)]
    unsafe fn tile4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        // SAFETY: `TILE4` rows of as many elements are readable at `x` and writable at `y`.
        unsafe { tile(x, x_stride, y, y_stride) }
    }
    #[inline(always)]
    unsafe fn long1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: `LONG1` rows of 16 bytes are readable at `x` and 16 of `LONG1` writable at `y`, two
        // tiles side by side.
        unsafe {
            tile(x, x_stride, y, y_stride);
            tile(x.add(LANES), x_stride, y.add(LANES * y_stride), y_stride);
        }
    }
    #[inline(always)]
    unsafe fn tile1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: `TILE1` rows of as many bytes are readable at `x` and writable at `y`.
        unsafe { tile(x, x_stride, y, y_stride) }
    }
}
