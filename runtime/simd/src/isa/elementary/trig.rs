//! `sin` and `cos`: reduction by multiples of a half turn (pi), then one polynomial.
//!
//! Up to 8192 the reduction is Cody and Waite's, which subtracts the parts of a multiple of pi one by one: three parts
//! with fused multiply-adds, four without. Beyond, it is Payne and Hanek's, in integers and lane by lane. The
//! polynomial interpolates `(sin(r) / r - 1) / r^2` at Chebyshev nodes.

use crate::isa::Simd;

/// Above this, multiples of the first two parts of a half turn are no longer exact.
const LARGE: f32 = 8192.0;

/// A half turn in parts of 24 bits each, all positive, which preserves the sign of zeros.
const HALF: [f32; 3] = [3.141_592_5, 1.509_957_9e-7, 1.078_060_6e-14];

/// A half turn in parts of 8, 11, 11 and 24 bits.
const HALF_SHORT: [f32; 4] = [3.140_625, 9.675_026e-4, 1.509_906_7e-7, 5.126_688e-12];

/// The bits of `2 / pi` after 64 zeros.
const TWO_OVER_PI: [u64; 5] =
    [0, 0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

/// 1.5 * 2^23: adding it to a float below 2^22 leaves the nearest integer in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// Computes `sin` of every lane.
#[inline(always)]
pub(in crate::isa) fn sin_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (magnitude, magic) = (simd.abs(x), simd.splat(MAGIC));
    let index = simd.fma(magnitude, simd.splat(std::f32::consts::FRAC_1_PI), magic);
    let y = turned(simd, magnitude, simd.sub(index, magic), index, 0);
    let sign = simd.and(simd.bits(x), simd.splat_i(i32::MIN));
    simd.float(simd.xor(simd.bits(y), sign))
}

/// Computes `cos` of every lane.
#[inline(always)]
pub(in crate::isa) fn cos_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (magnitude, magic, half) = (simd.abs(x), simd.splat(MAGIC), simd.splat(0.5));
    let half_turns = simd.fma(magnitude, simd.splat(std::f32::consts::FRAC_1_PI), half);
    let index = simd.add(half_turns, magic);
    let n = simd.sub(simd.sub(index, magic), half);
    turned(simd, magnitude, n, index, 1)
}

/// Computes the sine of `x + quarters * pi / 2` for `x >= 0`. `n` half turns are subtracted from `x`; the lowest bit of
/// `index` tells whether the sine changes its sign.
#[inline(always)]
fn turned<S: Simd>(simd: S, x: S::F, n: S::F, index: S::F, quarters: u32) -> S::F {
    let r = if S::FUSED { less(simd, x, n, HALF) } else { less(simd, x, n, HALF_SHORT) };
    let y = wave(simd, r, simd.bits(index));
    // The comparison is false for NaN, and `y` is NaN already.
    let is_large = simd.lt(simd.splat(LARGE), x);
    if simd.any(is_large) { large(simd, x, y, quarters) } else { y }
}

/// Subtracts `n` times the sum of `parts` from `x`.
#[inline(always)]
fn less<S: Simd, const N: usize>(simd: S, x: S::F, n: S::F, parts: [f32; N]) -> S::F {
    let mut remainder = x;
    let mut part = 0;
    while part < N {
        remainder = simd.fnma(n, simd.splat(parts[part]), remainder);
        part += 1;
    }
    remainder
}

/// Computes the sine of an `r` within a quarter turn of 0, negated if `n` is odd.
#[inline(always)]
fn wave<S: Simd>(simd: S, r: S::F, n: S::I) -> S::F {
    let z = simd.mul(r, r);
    let p = simd
        .poly(z, [-2.407_982_6e-8, 2.753_644_8e-6, -1.984_108_7e-4, 8.333_333e-3, -1.666_666_7e-1]);
    let y = simd.fma(simd.mul(r, z), p, r);
    simd.float(simd.xor(simd.bits(y), simd.shl::<31>(n)))
}

/// Replaces the results `y` of lanes with a large `x`.
#[inline(always)]
fn large<S: Simd>(simd: S, x: S::F, y: S::F, quarters: u32) -> S::F {
    let (mut remainders, mut counts) = ([0.0; 16], [0.0; 16]);
    for ((x, remainder), n) in simd.to_array(x).iter().zip(&mut remainders).zip(&mut counts) {
        if *x > LARGE {
            (*remainder, *n) = payne_hanek(*x, quarters);
        }
    }
    let (remainder, n) = (simd.of_array(remainders), simd.to_int(simd.of_array(counts)));
    simd.select(simd.lt(simd.splat(LARGE), x), wave(simd, remainder, n), y)
}

/// Reduces `x + quarters * pi / 2` for `x > 8192` by Payne and Hanek's method: returns the remainder in radians, and
/// the number of half turns modulo 2. `x` times `2 / pi` is a number of quarter turns, of which only the two lowest
/// whole bits and the fraction matter.
#[inline(never)]
fn payne_hanek(x: f32, quarters: u32) -> (f32, f32) {
    if x == f32::INFINITY {
        return (f32::NAN, 0.0);
    }
    let bits = x.to_bits();
    let mantissa = u128::from(bits & 0x7f_ffff | 0x80_0000);
    // With `x = mantissa * 2^e`, selects the 128 bits of `2 / pi` that have the weights 2^127 to 2^0 in `2^e * 2 / pi *
    // 2^126`. Higher bits contribute whole turns, lower ones are below the error. The bit of weight 2^127 is bit `e -
    // 1` after the point of `2 / pi`, and thus has index `e + 62` in the table; the exponent field is `e + 150`.
    let first_bit = (bits >> 23) as usize + 62 - 150;
    let (word, shift) = (first_bit / 64, first_bit % 64);
    let window = u128::from(TWO_OVER_PI[word]) << 64 | u128::from(TWO_OVER_PI[word + 1]);
    let lower_word = u128::from(TWO_OVER_PI[word + 2]);
    let window = (window << shift) | ((lower_word << shift) >> 64);
    let turns = mantissa.wrapping_mul(window).wrapping_add(u128::from(quarters) << 126);
    let n = turns.wrapping_add(1 << 126) >> 127;
    let remainder = turns.wrapping_sub(n << 127).cast_signed();
    let remainder = remainder as f64 * (std::f64::consts::FRAC_PI_2 / (1u128 << 126) as f64);
    (remainder as f32, (n & 1) as f32)
}
