//! `sin` and `cos`: reduced by multiples of a quarter turn, then Cephes' polynomials (`sinf.c`).
//!
//! Up to 8192 the reduction is Cody and Waite's in four steps; beyond, it is Payne and Hanek's, in
//! integers and lane by lane.

use super::map::Unary;
use super::vector::Simd;

/// Above this, multiples of the first two parts of a quarter turn would no longer be exact.
const LARGE: f32 = 8192.0;

/// A quarter turn in parts of 8, 11, 11 and 24 bits.
const QUARTER: [f32; 4] = [1.570_312_5, 4.837_513e-4, 7.549_533_6e-8, 2.563_344_2e-12];

/// The bits of `2 / pi` behind 64 zeros.
const TWO_OVER_PI: [u64; 5] =
    [0, 0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

#[derive(Clone, Copy, Debug)]
pub(super) struct Sin;

impl Unary for Sin {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
        let (y, sign) = turned(simd, simd.abs(x), 0);
        simd.float(
            simd.xor(simd.xor(simd.bits(y), sign), simd.and(simd.bits(x), simd.splat_i(i32::MIN))),
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cos;

impl Unary for Cos {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F {
        let (y, sign) = turned(simd, simd.abs(x), 1);
        simd.float(simd.xor(simd.bits(y), sign))
    }
}

/// The sine of `x >= 0` and `quarters` of a turn, as its size within a half turn and its sign's bit.
#[inline(always)]
fn turned<S: Simd>(simd: S, x: S::F, quarters: i32) -> (S::F, S::I) {
    let (r, n) = reduced(simd, x);
    let n = simd.add_i(n, simd.splat_i(quarters));
    let z = simd.mul(r, r);
    let sine = simd.poly(z, [-1.951_529_6e-4, 8.332_161e-3, -1.666_665_5e-1]);
    let sine = simd.fma(simd.mul(r, z), sine, r);
    let cosine = simd.poly(z, [2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
    let cosine = simd.fma(simd.mul(z, z), cosine, simd.nfma(z, simd.splat(0.5), simd.splat(1.0)));
    let is_odd = simd.lt_i(simd.shl::<31>(n), simd.splat_i(0));
    let sign = simd.and(simd.shl::<30>(n), simd.splat_i(i32::MIN));
    (simd.select(is_odd, cosine, sine), sign)
}

/// `r` in an eighth turn around 0 and `n` with `x = r + n` quarter turns; `n` may lack whole turns.
#[inline(always)]
fn reduced<S: Simd>(simd: S, x: S::F) -> (S::F, S::I) {
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::FRAC_2_PI)));
    let mut r = x;
    let mut part = 0;
    while part < QUARTER.len() {
        r = simd.nfma(n, simd.splat(QUARTER[part]), r);
        part += 1;
    }
    let n = simd.to_int(n);
    if simd.any(simd.lt(simd.splat(LARGE), x)) { reduced_large(simd, x, r, n) } else { (r, n) }
}

/// Replaces `r` and `n` of the lanes whose `x` is large.
#[inline(always)]
fn reduced_large<S: Simd>(simd: S, x: S::F, r: S::F, n: S::I) -> (S::F, S::I) {
    let (mut values, mut rests, mut counts) = ([0.0; 16], [0.0; 16], [0.0; 16]);
    // SAFETY: a vector has 16 lanes at most.
    unsafe { simd.store(values.as_mut_ptr(), x) }
    // SAFETY: as above.
    unsafe { simd.store(rests.as_mut_ptr(), r) }
    // SAFETY: as above.
    unsafe { simd.store(counts.as_mut_ptr(), simd.int_to_float(n)) }
    for ((x, r), n) in values.iter().zip(&mut rests).zip(&mut counts) {
        if *x > LARGE {
            (*r, *n) = payne_hanek(*x);
        }
    }
    // SAFETY: as above.
    let r = unsafe { simd.load(rests.as_ptr()) };
    // SAFETY: as above.
    (r, simd.to_int(unsafe { simd.load(counts.as_ptr()) }))
}

/// Payne and Hanek's reduction of `x > 8192`: the rest, and the count of quarter turns modulo 4.
#[inline(never)]
fn payne_hanek(x: f32) -> (f32, f32) {
    if x == f32::INFINITY {
        return (f32::NAN, 0.0);
    }
    let bits = x.to_bits();
    let mantissa = u128::from(bits & 0x7f_ffff | 0x80_0000);
    // With `x = mantissa * 2^e`, the bits of `2 / pi` that weigh `2^127..=2^0` in the product
    // `x * 2 / pi * 2^126`; those above make whole turns, those below are less than its error.
    // The one that weighs `2^127` is bit `e - 1` behind the point, and thus at `e + 62`.
    let at = (bits >> 23) as usize + 62 - 150;
    let (word, shift) = (at / 64, at % 64);
    let window = u128::from(TWO_OVER_PI[word]) << 64 | u128::from(TWO_OVER_PI[word + 1]);
    let below = u128::from(TWO_OVER_PI[word + 2]);
    let window = (window << shift) | ((below << shift) >> 64);
    let turns = mantissa.wrapping_mul(window);
    let n = turns.wrapping_add(1 << 125) >> 126;
    let rest = turns.wrapping_sub(n << 126).cast_signed();
    let rest = rest as f64 * (std::f64::consts::FRAC_PI_2 / (1u128 << 126) as f64);
    (rest as f32, (n & 3) as f32)
}
