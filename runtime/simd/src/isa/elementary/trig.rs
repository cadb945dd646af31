//! `sin` and `cos`: reduction by multiples of a half turn, then one polynomial.
//!
//! Up to 8192 the reduction is Cody and Waite's, in three steps with fused multiply-adds and in four without. Beyond,
//! it is Payne and Hanek's, in integers and lane by lane. The polynomial interpolates `(sin(r) / r - 1) / r^2` at
//! Chebyshev nodes.

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
    let (size, magic) = (simd.abs(x), simd.splat(MAGIC));
    let at = simd.fma(size, simd.splat(std::f32::consts::FRAC_1_PI), magic);
    let y = turned(simd, size, simd.sub(at, magic), at, 0);
    let sign = simd.and(simd.bits(x), simd.splat_i(i32::MIN));
    simd.float(simd.xor(simd.bits(y), sign))
}

/// Computes `cos` of every lane.
#[inline(always)]
pub(in crate::isa) fn cos_of<S: Simd>(simd: S, x: S::F) -> S::F {
    let (size, magic, half) = (simd.abs(x), simd.splat(MAGIC), simd.splat(0.5));
    let turns = simd.fma(size, simd.splat(std::f32::consts::FRAC_1_PI), half);
    let at = simd.add(turns, magic);
    let n = simd.sub(simd.sub(at, magic), half);
    turned(simd, size, n, at, 1)
}

/// Computes the sine of `x >= 0` plus `quarters` of a turn, `n` half turns away from 0; the lowest bit of `at`
/// determines the sign.
#[inline(always)]
fn turned<S: Simd>(simd: S, x: S::F, n: S::F, at: S::F, quarters: u32) -> S::F {
    let r = if S::FUSED { less(simd, x, n, HALF) } else { less(simd, x, n, HALF_SHORT) };
    let y = wave(simd, r, simd.bits(at));
    // The comparison is false for NaN, and `y` is NaN already.
    let is_large = simd.lt(simd.splat(LARGE), x);
    if simd.any(is_large) { large(simd, x, y, quarters) } else { y }
}

/// Subtracts `n` times the sum of `parts` from `x`.
#[inline(always)]
fn less<S: Simd, const N: usize>(simd: S, x: S::F, n: S::F, parts: [f32; N]) -> S::F {
    let mut r = x;
    let mut part = 0;
    while part < N {
        r = simd.fnma(n, simd.splat(parts[part]), r);
        part += 1;
    }
    r
}

/// Computes the sine of `r` within a quarter turn of 0, negated if `n` is odd.
#[inline(always)]
fn wave<S: Simd>(simd: S, r: S::F, n: S::I) -> S::F {
    let z = simd.mul(r, r);
    let p = simd
        .poly(z, [-2.407_982_6e-8, 2.753_644_8e-6, -1.984_108_7e-4, 8.333_333e-3, -1.666_666_7e-1]);
    let y = simd.fma(simd.mul(r, z), p, r);
    simd.float(simd.xor(simd.bits(y), simd.shl::<31>(n)))
}

/// Replaces the results of lanes with a large `x`.
#[inline(always)]
fn large<S: Simd>(simd: S, x: S::F, y: S::F, quarters: u32) -> S::F {
    let (mut rests, mut counts) = ([0.0; 16], [0.0; 16]);
    for ((x, r), n) in simd.to_array(x).iter().zip(&mut rests).zip(&mut counts) {
        if *x > LARGE {
            (*r, *n) = payne_hanek(*x, quarters);
        }
    }
    let (r, n) = (simd.of_array(rests), simd.to_int(simd.of_array(counts)));
    simd.select(simd.lt(simd.splat(LARGE), x), wave(simd, r, n), y)
}

/// Payne and Hanek's reduction of `x > 8192` plus `quarters` of a turn: returns the remainder, and the number of half
/// turns modulo 2.
#[inline(never)]
fn payne_hanek(x: f32, quarters: u32) -> (f32, f32) {
    if x == f32::INFINITY {
        return (f32::NAN, 0.0);
    }
    let bits = x.to_bits();
    let mantissa = u128::from(bits & 0x7f_ffff | 0x80_0000);
    // With `x = mantissa * 2^e`, selects the bits of `2 / pi` of weight `2^127..=2^0` in the product `x * 2 / pi *
    // 2^126`. Higher bits make whole turns, lower ones are below the error. The bit of weight `2^127` is number `e - 1`
    // after the point, and thus at `e + 62`.
    let at = (bits >> 23) as usize + 62 - 150;
    let (word, shift) = (at / 64, at % 64);
    let window = u128::from(TWO_OVER_PI[word]) << 64 | u128::from(TWO_OVER_PI[word + 1]);
    let below = u128::from(TWO_OVER_PI[word + 2]);
    let window = (window << shift) | ((below << shift) >> 64);
    let turns = mantissa.wrapping_mul(window).wrapping_add(u128::from(quarters) << 126);
    let n = turns.wrapping_add(1 << 126) >> 127;
    let rest = turns.wrapping_sub(n << 127).cast_signed();
    let rest = rest as f64 * (std::f64::consts::FRAC_PI_2 / (1u128 << 126) as f64);
    (rest as f32, (n & 1) as f32)
}
