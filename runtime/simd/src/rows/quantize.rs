//! ONNX's `QuantizeLinear` and `DequantizeLinear` for elements with a common scale and zero point.

use std::marker::PhantomData;

use super::convert::{Convert, convert};
use crate::isa;
use crate::isa::Vector;

mod sealed {
    pub trait Sealed {}
}

/// An integer type of quantized values.
pub trait Quantized: sealed::Sealed + Copy + Default + Into<i32> {
    /// The smallest value.
    const LEAST: i32;
    /// The largest value.
    const GREATEST: i32;
    /// Converts an integer, which must be in range.
    fn from_i32(value: i32) -> Self;
}

macro_rules! quantized {
    ($($type:ident),*) => {$(
        impl sealed::Sealed for $type {}
        impl Quantized for $type {
            const LEAST: i32 = $type::MIN as i32;
            const GREATEST: i32 = $type::MAX as i32;

            fn from_i32(value: i32) -> Self {
                value as $type
            }
        }
    )*};
}
quantized!(u8, i8, u16, i16);

/// Computes `saturate(round(x / scale) + zero_point)` with ties to even, as in ONNX; NaN gives the smallest value.
pub fn quantize<Q: Quantized>(x: &[f32], scale: f32, zero_point: Q, y: &mut [Q]) {
    convert(isa(), Quantize::new(scale, zero_point), x, y);
}

/// Computes `(x - zero_point) * scale`, rounded once.
pub fn dequantize<Q: Quantized>(x: &[Q], scale: f32, zero_point: Q, y: &mut [f32]) {
    convert(isa(), Dequantize { scale, zero_point }, x, y);
}

/// Reinterprets signed values as bytes.
pub fn bits(values: &[i8]) -> &[u8] {
    // SAFETY: the result covers the bytes of the slice; `i8` and `u8` have the same size, and any bits are valid.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Quantize<Q> {
    scale: f32,
    /// `1 / scale`, or 0 if the division must not be replaced by a multiplication, because its remainders may be
    /// denormal.
    inverse: f32,
    zero_point: i32,
    type_of: PhantomData<Q>,
}

impl<Q: Quantized> Quantize<Q> {
    pub(super) fn new(scale: f32, zero_point: Q) -> Self {
        let inverse = if (1e-30..1e30).contains(&scale.abs()) { 1.0 / scale } else { 0.0 };
        Self { scale, inverse, zero_point: zero_point.into(), type_of: PhantomData }
    }
}

impl<Q: Quantized> Quantize<Q> {
    /// Quantizes a vector, and saturates.
    #[inline(always)]
    pub(super) fn values<S: Vector>(self, simd: S, x: S::F) -> S::I {
        let quotient = if S::FUSED && self.inverse != 0.0 {
            // Values beyond this bound (2^18) saturate in any case. Clamping to it excludes infinities, for which the
            // correction would be NaN.
            let bound = simd.splat(262_144.0);
            let quotient = simd.mul(x, simd.splat(self.inverse));
            let quotient = simd.min(bound, simd.max(simd.sub(simd.splat(0.0), bound), quotient));
            self.corrected(simd, x, quotient)
        } else {
            simd.div(x, simd.splat(self.scale))
        };
        // `max` returns its second operand for NaN.
        let quotient = simd.max(quotient, simd.splat((Q::LEAST - self.zero_point) as f32));
        let quotient = simd.min(quotient, simd.splat((Q::GREATEST - self.zero_point) as f32));
        simd.add_i(simd.to_int(quotient), simd.splat_i(self.zero_point))
    }

    /// Quantizes without saturation, for magnitudes that are [near](Self::is_near) 0.
    #[inline(always)]
    pub(super) fn unsaturated<S: Vector>(self, simd: S, x: S::F) -> S::I {
        let quotient = if S::FUSED && self.inverse != 0.0 {
            self.corrected(simd, x, simd.mul(x, simd.splat(self.inverse)))
        } else {
            simd.div(x, simd.splat(self.scale))
        };
        simd.add_i(simd.to_int(quotient), simd.splat_i(self.zero_point))
    }

    /// Returns whether quotients of all values up to `magnitude` are in the range that [`Self::unsaturated`] converts
    /// exactly, which [`Simd::to_int`](crate::Simd::to_int) limits to 2^22.
    pub(super) fn is_near(self, magnitude: f32) -> bool {
        const MAX_QUOTIENT: f32 = 1e6;
        (magnitude / self.scale).abs() < MAX_QUOTIENT
    }

    /// Corrects a quotient that was computed with the inverse of the scale, so that it is rounded like a division
    /// (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).
    #[inline(always)]
    fn corrected<S: Vector>(self, simd: S, x: S::F, quotient: S::F) -> S::F {
        simd.fma(simd.fnma(quotient, simd.splat(self.scale), x), simd.splat(self.inverse), quotient)
    }
}

impl<Q: Quantized> Convert for Quantize<Q> {
    type X = f32;
    type Y = Q;

    #[inline(always)]
    unsafe fn step<S: Vector>(self, simd: S, x: *const f32, y: *mut Q) {
        // SAFETY: the caller guarantees that `LANES` f32 are readable at `x`.
        let values = self.values(simd, unsafe { simd.load(x) });
        if size_of::<Q>() == 1 {
            // SAFETY: `LANES` elements of `Q` are writable at `y`, of one byte each.
            unsafe { simd.store_u8(y.cast(), values) }
        } else {
            // SAFETY: `LANES` elements of `Q` are writable at `y`, of two bytes each.
            unsafe { simd.store_u16(y.cast(), values) }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Dequantize<Q> {
    pub(super) scale: f32,
    pub(super) zero_point: Q,
}

impl<Q: Quantized> Dequantize<Q> {
    /// Dequantizes the values at `x`.
    ///
    /// # Safety
    /// `LANES` values are readable at `x`.
    #[inline(always)]
    pub(super) unsafe fn dequantized<S: Vector>(self, simd: S, x: *const Q) -> S::F {
        let signed = Q::LEAST < 0;
        let integers = if size_of::<Q>() == 1 {
            // SAFETY: `LANES` elements of `Q` are readable at `x`, of one byte each.
            let integers = unsafe { simd.load_u8(x.cast()) };
            if signed { simd.sar::<24>(simd.shl::<24>(integers)) } else { integers }
        } else {
            // SAFETY: `LANES` elements of `Q` are readable at `x`, of two bytes each.
            let integers = unsafe { simd.load_u16(x.cast()) };
            if signed { simd.sar::<16>(simd.shl::<16>(integers)) } else { integers }
        };
        let integers = simd.sub_i(integers, simd.splat_i(self.zero_point.into()));
        simd.mul(simd.int_to_float(integers), simd.splat(self.scale))
    }
}

impl<Q: Quantized> Convert for Dequantize<Q> {
    type X = Q;
    type Y = f32;

    #[inline(always)]
    unsafe fn step<S: Vector>(self, simd: S, x: *const Q, y: *mut f32) {
        // SAFETY: `LANES` elements of `Q` are readable at `x`.
        let values = unsafe { self.dequantized(simd, x) };
        // SAFETY: `LANES` f32 are writable at `y`.
        unsafe { simd.store(y, values) }
    }
}
