//! The natural logarithm: splits off the exponent, then evaluates the polynomial of the Cephes library (`logf.c`).

use crate::isa::Simd;

/// The leading 10 bits of `ln 2`, whose products with exponents are exact.
const LN2_HIGH: f32 = 0.693_359_4;
/// `ln 2 - LN2_HIGH`.
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Computes `log` of every lane.
#[inline(always)]
pub(in crate::isa) fn log_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let is_subnormal = simd.lt(x, simd.splat(f32::MIN_POSITIVE));
    // Subnormal values are scaled by 2^23.
    let normal = simd.select(is_subnormal, simd.mul(x, simd.splat(8_388_608.0)), x);
    let offset = simd.select(is_subnormal, simd.splat(-23.0), simd.splat(0.0));
    // Chooses the exponent so that the mantissa is in sqrt(1/2)..sqrt(2).
    let bits = simd.bits(normal);
    let base = simd.splat_i(std::f32::consts::FRAC_1_SQRT_2.to_bits().cast_signed());
    let exponent = simd.sar::<23>(simd.sub_i(bits, base));
    let mantissa = simd.float(simd.sub_i(bits, simd.shl::<23>(exponent)));
    let exponent_f = simd.add(simd.int_to_float(exponent), offset);

    let f = simd.sub(mantissa, simd.splat(1.0));
    let z = simd.mul(f, f);
    let tail = simd.poly(
        f,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let low = simd.fma(exponent_f, simd.splat(LN2_LOW), simd.mul(simd.mul(f, z), tail));
    let low = simd.fnma(z, simd.splat(0.5), low);
    let y = simd.fma(exponent_f, simd.splat(LN2_HIGH), simd.add(f, low));

    let infinity = simd.splat(f32::INFINITY);
    let zero = simd.splat(0.0);
    let y = simd.select(simd.eq(x, infinity), infinity, y);
    let special =
        simd.select(simd.eq(x, zero), simd.splat(f32::NEG_INFINITY), simd.splat(f32::NAN));
    simd.select(simd.lt(zero, x), y, special)
}

/// Computes `log(1 + x)` of every lane: the logarithm of the rounded sum, plus the rounding error times the derivative.
#[inline(always)]
pub(in crate::isa) fn log1p_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    let sum = simd.add(one, x);
    // The rounding error of `1 + x`, by Dekker's Fast2Sum.
    let (magnitude, is_large) = (simd.abs(x), simd.lt(one, x));
    let rounding_error =
        simd.sub(simd.select(is_large, one, x), simd.sub(sum, simd.select(is_large, x, one)));
    let y = simd.add(simd.log(sum), simd.div(rounding_error, sum));
    let y = simd.select(simd.lt(magnitude, simd.splat(1e-8)), x, y);
    // The correction's quotient would be 0/0 or inf/inf.
    let is_special =
        simd.mask_or(simd.eq(x, simd.splat(-1.0)), simd.eq(x, simd.splat(f32::INFINITY)));
    simd.select(is_special, simd.log(sum), y)
}
