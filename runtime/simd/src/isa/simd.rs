//! Vectors of 32-bit lanes: what every instruction set offers to formulas.

use super::elementary;

pub(super) mod sealed {
    /// What only this crate's instruction sets are.
    pub trait Sealed {}
}

/// 1.5 * 2^23: added to a float below 2^22 it leaves the nearest integer, ties to even, in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// An instruction set, as a token: who holds one may use the instructions.
///
/// A formula is written once, over this trait, and runs on [`LANES`](Simd::LANES) numbers at a time with
/// what the machine has; [`map1`](crate::map1) and its neighbours hand the token in. Comparisons give a mask
/// with a truth per lane, and [`select`](Simd::select) takes the place of `if`.
pub trait Simd: sealed::Sealed + Copy + Send + Sync {
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

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// `x` in every lane.
    fn splat_i(self, x: i32) -> Self::I;
    /// The first [`LANES`](Simd::LANES) of these numbers.
    fn of_array(self, lanes: [f32; 16]) -> Self::F;
    /// The lanes, and zeros behind them.
    fn to_array(self, x: Self::F) -> [f32; 16];

    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once where the instruction set is [`FUSED`](Simd::FUSED), else twice.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`, rounded as [`Simd::fma`].
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The square root; a NaN for negative numbers.
    fn sqrt(self, x: Self::F) -> Self::F;
    /// The smaller one; `b` where either is a NaN, or both are zeros.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger one; `b` where either is a NaN, or both are zeros.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The nearest whole number, ties to even.
    fn round(self, x: Self::F) -> Self::F;
    /// The greatest whole number that is not greater.
    fn floor(self, x: Self::F) -> Self::F;
    /// The least whole number that is not less.
    fn ceil(self, x: Self::F) -> Self::F;
    /// Without its fraction.
    fn trunc(self, x: Self::F) -> Self::F;

    /// `a < b`, false for a NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a <= b`, false for a NaN.
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`, false for a NaN.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a < b`.
    fn lt_i(self, a: Self::I, b: Self::I) -> Self::M;
    /// Where both masks are true.
    fn mask_and(self, a: Self::M, b: Self::M) -> Self::M;
    /// Where one of the masks is true, or both are.
    fn mask_or(self, a: Self::M, b: Self::M) -> Self::M;
    /// Where the mask is false.
    fn mask_not(self, mask: Self::M) -> Self::M;
    /// `yes` where the mask is true, else `no`.
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// Whether the mask is true in any lane.
    fn any(self, mask: Self::M) -> bool;

    /// The bits of floats.
    fn bits(self, x: Self::F) -> Self::I;
    /// The floats of bits.
    fn float(self, x: Self::I) -> Self::F;
    /// The nearest float to an integer.
    fn int_to_float(self, x: Self::I) -> Self::F;
    /// `a + b`, which wraps.
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`, which wraps.
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// The bits that both have.
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    /// The bits that one has, or both.
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// The bits that one has and the other has not.
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts left by less than 32.
    fn shl<const BY: u32>(self, x: Self::I) -> Self::I;
    /// Shifts zeros in, by less than 32.
    fn shr<const BY: u32>(self, x: Self::I) -> Self::I;
    /// Shifts copies of the sign in, by less than 32.
    fn sar<const BY: u32>(self, x: Self::I) -> Self::I;

    /// The sum of all lanes, added pairwise.
    fn sum(self, x: Self::F) -> f32;
    /// The greatest lane; where there is a NaN, any lane.
    fn max_lane(self, x: Self::F) -> f32;

    /// The exponential function, to 1.1 ulp.
    fn exp(self, x: Self::F) -> Self::F;
    /// The natural logarithm, to 1 ulp; a NaN for negative numbers.
    fn log(self, x: Self::F) -> Self::F;
    /// The hyperbolic tangent, to 2.5 ulp.
    fn tanh(self, x: Self::F) -> Self::F;
    /// `1 / (1 + exp(-x))`, to 2.5 ulp.
    fn sigmoid(self, x: Self::F) -> Self::F;
    /// The error function, to 1.2 ulp.
    fn erf(self, x: Self::F) -> Self::F;
    /// The sine of radians, to 2 ulp however large they are; a NaN for infinities.
    fn sin(self, x: Self::F) -> Self::F;
    /// The cosine of radians, to 2 ulp however large they are; a NaN for infinities.
    fn cos(self, x: Self::F) -> Self::F;
    /// `1 / sqrt(x)`, to 1.5 ulp; infinite for zeros, with their sign, and a NaN for negative numbers.
    fn rsqrt(self, x: Self::F) -> Self::F;

    /// `exp(x) - 1`, to 2 ulp.
    #[inline(always)]
    fn expm1(self, x: Self::F) -> Self::F {
        elementary::exp::expm1_of(self, x)
    }

    /// `log(1 + x)`, to 2 ulp; a NaN below -1.
    #[inline(always)]
    fn log1p(self, x: Self::F) -> Self::F {
        elementary::log::log1p_of(self, x)
    }

    /// The tangent of radians, to 4 ulp however large they are; a NaN for infinities.
    #[inline(always)]
    fn tan(self, x: Self::F) -> Self::F {
        self.div(self.sin(x), self.cos(x))
    }

    /// The inverse sine, to 3 ulp; a NaN beyond 1.
    #[inline(always)]
    fn asin(self, x: Self::F) -> Self::F {
        elementary::inverse::asin_of(self, x)
    }

    /// The inverse cosine, to 3 ulp; a NaN beyond 1.
    #[inline(always)]
    fn acos(self, x: Self::F) -> Self::F {
        elementary::inverse::acos_of(self, x)
    }

    /// The inverse tangent, to 3 ulp.
    #[inline(always)]
    fn atan(self, x: Self::F) -> Self::F {
        elementary::inverse::atan_of(self, x)
    }

    /// The hyperbolic sine, to 4 ulp.
    #[inline(always)]
    fn sinh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::sinh_of(self, x)
    }

    /// The hyperbolic cosine, to 4 ulp.
    #[inline(always)]
    fn cosh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::cosh_of(self, x)
    }

    /// The inverse hyperbolic sine, to 4 ulp.
    #[inline(always)]
    fn asinh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::asinh_of(self, x)
    }

    /// The inverse hyperbolic cosine, to 4 ulp; a NaN below 1.
    #[inline(always)]
    fn acosh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::acosh_of(self, x)
    }

    /// The inverse hyperbolic tangent, to 4 ulp; a NaN beyond 1.
    #[inline(always)]
    fn atanh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::atanh_of(self, x)
    }

    /// `-x`, also of zeros and NaNs.
    #[inline(always)]
    fn neg(self, x: Self::F) -> Self::F {
        self.float(self.xor(self.bits(x), self.splat_i(i32::MIN)))
    }

    /// The nearest integer, ties to even, for floats below 2^22.
    #[inline(always)]
    fn to_int(self, x: Self::F) -> Self::I {
        let magic = self.splat(MAGIC);
        self.sub_i(self.bits(self.add(x, magic)), self.bits(magic))
    }

    /// As [`Simd::round`], for floats below 2^22.
    #[inline(always)]
    fn round_small(self, x: Self::F) -> Self::F {
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

    /// Without its sign.
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

    /// `yes` where the mask is true, else `no`.
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
}
