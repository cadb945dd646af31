//! Conversions between `f32` and 16-bit floats, and the loop that all conversions share.

use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// A conversion of vectors from `X` to `Y`.
pub(super) trait Convert: Copy {
    type X: Copy + Default;
    type Y: Copy + Default;

    /// Converts a vector. Must be `#[inline(always)]`.
    ///
    /// # Safety
    /// `S::LANES` elements are readable at `x` and writable at `y`.
    unsafe fn step<S: Vector>(self, simd: S, x: *const Self::X, y: *mut Self::Y);
}

/// The loop over two slices.
struct ConvertSlice<'a, C: Convert> {
    op: C,
    x: &'a [C::X],
    y: &'a mut [C::Y],
}

impl<C: Convert> SimdOp for ConvertSlice<'_, C> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let len = self.x.len().min(self.y.len());
        let whole = len - len % S::LANES;
        let (x, y) = (self.x.as_ptr(), self.y.as_mut_ptr());
        let mut i = 0;
        while i < whole {
            // The hardware prefetches the source well, but the destination not far enough.
            simd.prefetch(y.wrapping_add(i + 8 * S::LANES).cast_const().cast());
            // SAFETY: a vector from `i` on is within `len`.
            unsafe { self.op.step(simd, x.add(i), y.add(i)) }
            i += S::LANES;
        }
        let (mut tail_inputs, mut tail_outputs) = ([C::X::default(); 16], [C::Y::default(); 16]);
        for (tail_input, x) in tail_inputs.iter_mut().zip(self.x.iter().take(len).skip(whole)) {
            *tail_input = *x;
        }
        if whole < len {
            // SAFETY: a vector has 16 lanes at most.
            unsafe { self.op.step(simd, tail_inputs.as_ptr(), tail_outputs.as_mut_ptr()) }
        }
        for (y, value) in self.y.iter_mut().take(len).skip(whole).zip(tail_outputs) {
            *y = value;
        }
    }
}

/// Converts the common length of two slices.
pub(super) fn convert<C: Convert>(isa: Isa, op: C, x: &[C::X], y: &mut [C::Y]) {
    debug_assert_eq!(x.len(), y.len(), "slices of one length");
    dispatch(isa, ConvertSlice { op, x, y });
}

/// Converts IEEE 754 half-precision bits to `f32`, exactly.
pub fn f16_to_f32(x: &[u16], y: &mut [f32]) {
    convert(isa(), FromF16, x, y);
}

/// Converts `f32` to IEEE 754 half-precision bits: nearest, ties to even, overflow to infinity.
pub fn f32_to_f16(x: &[f32], y: &mut [u16]) {
    convert(isa(), ToF16, x, y);
}

/// Converts bfloat16 bits to `f32`, exactly.
pub fn bf16_to_f32(x: &[u16], y: &mut [f32]) {
    convert(isa(), FromBf16, x, y);
}

/// Converts `f32` to bfloat16 bits: nearest, ties to even; NaN becomes quiet.
pub fn f32_to_bf16(x: &[f32], y: &mut [u16]) {
    convert(isa(), ToBf16, x, y);
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FromF16;

impl Convert for FromF16 {
    type X = u16;
    type Y = f32;

    #[inline(always)]
    unsafe fn step<S: Vector>(self, simd: S, x: *const u16, y: *mut f32) {
        // SAFETY: `LANES` u16 are readable at `x`.
        let values = unsafe { simd.load_f16(x) };
        // SAFETY: `LANES` f32 are writable at `y`.
        unsafe { simd.store(y, values) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ToF16;

impl Convert for ToF16 {
    type X = f32;
    type Y = u16;

    #[inline(always)]
    unsafe fn step<S: Vector>(self, simd: S, x: *const f32, y: *mut u16) {
        // SAFETY: `LANES` f32 are readable at `x`.
        let values = unsafe { simd.load(x) };
        // SAFETY: `LANES` u16 are writable at `y`.
        unsafe { simd.store_f16(y, values) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FromBf16;

impl Convert for FromBf16 {
    type X = u16;
    type Y = f32;

    #[inline(always)]
    unsafe fn step<S: Vector>(self, simd: S, x: *const u16, y: *mut f32) {
        // SAFETY: `LANES` u16 are readable at `x`.
        let values = unsafe { simd.load_u16(x) };
        // SAFETY: `LANES` f32 are writable at `y`.
        unsafe { simd.store(y, simd.float(simd.shl::<16>(values))) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ToBf16;

impl Convert for ToBf16 {
    type X = f32;
    type Y = u16;

    #[inline(always)]
    unsafe fn step<S: Vector>(self, simd: S, x: *const f32, y: *mut u16) {
        // SAFETY: `LANES` f32 are readable at `x`.
        let bits = simd.bits(unsafe { simd.load(x) });
        let upper_half = simd.shr::<16>(bits);
        let lowest_bit = simd.and(upper_half, simd.splat_i(1));
        // Adds half a unit in the last place, minus one if the result would be even, and truncates.
        let rounded =
            simd.shr::<16>(simd.add_i(simd.add_i(bits, simd.splat_i(0x7fff)), lowest_bit));
        let magnitude = simd.and(bits, simd.splat_i(i32::MAX));
        let is_nan = simd.lt_i(simd.splat_i(0x7f80_0000), magnitude);
        // Sets the highest bit of a NaN's mantissa, which makes it quiet.
        let y_bits = simd.select_i(is_nan, simd.or(upper_half, simd.splat_i(0x40)), rounded);
        // SAFETY: `LANES` u16 are writable at `y`.
        unsafe { simd.store_u16(y, y_bits) }
    }
}
