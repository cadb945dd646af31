//! Vectors of 32-bit lanes: the operations that every instruction set offers to formulas.

use super::elementary;

pub(super) mod sealed {
    /// Restricts implementations to this crate's instruction sets.
    pub trait Sealed {}
}

/// 1.5 * 2^23: adding it to a float below 2^22 leaves the nearest integer, ties to even, in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// An instruction set, as a token. Having a token permits use of the instructions.
///
/// A formula is written once over this trait and processes [`LANES`](Simd::LANES) values at a time.
/// [`map1`](crate::map1) and related functions pass the token in. Comparisons return a mask with one bool per lane, and
/// [`select`](Simd::select) replaces `if`.
pub trait Simd: sealed::Sealed + Copy + Send + Sync {
    /// A vector of `f32`.
    type F: Copy;
    /// A vector of `i32`.
    type I: Copy;
    /// A mask with one bool per lane.
    type M: Copy;

    /// Lanes per vector, at most 16.
    const LANES: usize;
    /// Whether `fma` is one instruction and rounds once.
    const FUSED: bool;

    /// Returns `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// Returns `x` in every lane.
    fn splat_i(self, x: i32) -> Self::I;
    /// Returns a vector of the first [`LANES`](Simd::LANES) elements.
    fn of_array(self, lanes: [f32; 16]) -> Self::F;
    /// Returns the lanes, followed by zeros.
    fn to_array(self, x: Self::F) -> [f32; 16];

    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once if the instruction set is [`FUSED`](Simd::FUSED), else twice.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`, rounded like [`Simd::fma`].
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The square root; NaN for negative values.
    fn sqrt(self, x: Self::F) -> Self::F;
    /// The smaller value; `b` if either is NaN, or both are zeros.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger value; `b` if either is NaN, or both are zeros.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// Rounds to the nearest whole number, ties to even.
    fn round(self, x: Self::F) -> Self::F;
    /// Rounds down to a whole number.
    fn floor(self, x: Self::F) -> Self::F;
    /// Rounds up to a whole number.
    fn ceil(self, x: Self::F) -> Self::F;
    /// Truncates to a whole number.
    fn trunc(self, x: Self::F) -> Self::F;

    /// `a < b`; false for NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a <= b`; false for NaN.
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`; false for NaN.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a < b`.
    fn lt_i(self, a: Self::I, b: Self::I) -> Self::M;
    /// Lane-wise `a && b`.
    fn mask_and(self, a: Self::M, b: Self::M) -> Self::M;
    /// Lane-wise `a || b`.
    fn mask_or(self, a: Self::M, b: Self::M) -> Self::M;
    /// Lane-wise `!mask`.
    fn mask_not(self, mask: Self::M) -> Self::M;
    /// Returns `yes` where the mask is true, else `no`.
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// Returns whether the mask is true in any lane.
    fn any(self, mask: Self::M) -> bool;

    /// Reinterprets floats as their bits.
    fn bits(self, x: Self::F) -> Self::I;
    /// Reinterprets bits as floats.
    fn float(self, x: Self::I) -> Self::F;
    /// Converts integers to the nearest floats.
    fn int_to_float(self, x: Self::I) -> Self::F;
    /// `a + b`, wrapping.
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`, wrapping.
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a & b`.
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a | b`.
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a ^ b`.
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts left by less than 32.
    fn shl<const BY: u32>(self, x: Self::I) -> Self::I;
    /// Shifts right by less than 32, filling with zeros.
    fn shr<const BY: u32>(self, x: Self::I) -> Self::I;
    /// Shifts right by less than 32, filling with the sign.
    fn sar<const BY: u32>(self, x: Self::I) -> Self::I;

    /// Returns the sum of all lanes, added pairwise.
    fn sum(self, x: Self::F) -> f32;
    /// Returns the largest lane; if one is NaN, any lane.
    fn max_lane(self, x: Self::F) -> f32;

    /// The exponential function, within 1.1 ulp.
    fn exp(self, x: Self::F) -> Self::F;
    /// The natural logarithm, within 1 ulp; NaN for negative values.
    fn log(self, x: Self::F) -> Self::F;
    /// The hyperbolic tangent, within 2.5 ulp.
    fn tanh(self, x: Self::F) -> Self::F;
    /// `1 / (1 + exp(-x))`, within 2.5 ulp.
    fn sigmoid(self, x: Self::F) -> Self::F;
    /// The error function, within 1.2 ulp.
    fn erf(self, x: Self::F) -> Self::F;
    /// The sine of radians, within 2 ulp for arguments of any size; NaN for infinities.
    fn sin(self, x: Self::F) -> Self::F;
    /// The cosine of radians, within 2 ulp for arguments of any size; NaN for infinities.
    fn cos(self, x: Self::F) -> Self::F;
    /// `1 / sqrt(x)`, within 1.5 ulp; infinite for zeros, with their sign, and NaN for negative values.
    fn rsqrt(self, x: Self::F) -> Self::F;

    /// `exp(x) - 1`, within 2 ulp.
    #[inline(always)]
    fn expm1(self, x: Self::F) -> Self::F {
        elementary::exp::expm1_of(self, x)
    }

    /// `log(1 + x)`, within 2 ulp; NaN below -1.
    #[inline(always)]
    fn log1p(self, x: Self::F) -> Self::F {
        elementary::log::log1p_of(self, x)
    }

    /// The tangent of radians, within 4 ulp for arguments of any size; NaN for infinities.
    #[inline(always)]
    fn tan(self, x: Self::F) -> Self::F {
        self.div(self.sin(x), self.cos(x))
    }

    /// The inverse sine, within 3 ulp; NaN outside -1..=1.
    #[inline(always)]
    fn asin(self, x: Self::F) -> Self::F {
        elementary::inverse::asin_of(self, x)
    }

    /// The inverse cosine, within 3 ulp; NaN outside -1..=1.
    #[inline(always)]
    fn acos(self, x: Self::F) -> Self::F {
        elementary::inverse::acos_of(self, x)
    }

    /// The inverse tangent, within 3 ulp.
    #[inline(always)]
    fn atan(self, x: Self::F) -> Self::F {
        elementary::inverse::atan_of(self, x)
    }

    /// The hyperbolic sine, within 4 ulp.
    #[inline(always)]
    fn sinh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::sinh_of(self, x)
    }

    /// The hyperbolic cosine, within 4 ulp.
    #[inline(always)]
    fn cosh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::cosh_of(self, x)
    }

    /// The inverse hyperbolic sine, within 4 ulp.
    #[inline(always)]
    fn asinh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::asinh_of(self, x)
    }

    /// The inverse hyperbolic cosine, within 4 ulp; NaN below 1.
    #[inline(always)]
    fn acosh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::acosh_of(self, x)
    }

    /// The inverse hyperbolic tangent, within 4 ulp; NaN outside -1..=1.
    #[inline(always)]
    fn atanh(self, x: Self::F) -> Self::F {
        elementary::hyperbolic::atanh_of(self, x)
    }

    /// `-x`, including zeros and NaN.
    #[inline(always)]
    fn neg(self, x: Self::F) -> Self::F {
        self.float(self.xor(self.bits(x), self.splat_i(i32::MIN)))
    }

    /// Rounds to the nearest integer, ties to even, for floats below 2^22.
    #[inline(always)]
    fn to_int(self, x: Self::F) -> Self::I {
        let magic = self.splat(MAGIC);
        self.sub_i(self.bits(self.add(x, magic)), self.bits(magic))
    }

    /// Like [`Simd::round`], for floats below 2^22.
    #[inline(always)]
    fn round_small(self, x: Self::F) -> Self::F {
        let magic = self.splat(MAGIC);
        self.sub(self.add(x, magic), magic)
    }

    /// `x * 2^n` for whole `n` in -250..=250, rounded once. Multiplies by two powers, since one could overflow.
    #[inline(always)]
    fn scale(self, x: Self::F, n: Self::F) -> Self::F {
        let n = self.to_int(n);
        let first_half = self.sar::<1>(n);
        self.mul(self.mul(x, self.power(first_half)), self.power(self.sub_i(n, first_half)))
    }

    /// `2^n` for `n` in -126..=127.
    #[inline(always)]
    fn power(self, n: Self::I) -> Self::F {
        self.float(self.shl::<23>(self.add_i(n, self.splat_i(127))))
    }

    /// The absolute value.
    #[inline(always)]
    fn abs(self, x: Self::F) -> Self::F {
        self.float(self.and(self.bits(x), self.splat_i(i32::MAX)))
    }

    /// Returns `size`, which must not be negative, with the sign of `sign`.
    #[inline(always)]
    fn with_sign(self, size: Self::F, sign: Self::F) -> Self::F {
        let sign = self.and(self.bits(sign), self.splat_i(i32::MIN));
        self.float(self.or(self.bits(size), sign))
    }

    /// Returns `yes` where the mask is true, else `no`, of integers.
    #[inline(always)]
    fn select_i(self, mask: Self::M, yes: Self::I, no: Self::I) -> Self::I {
        self.bits(self.select(mask, self.float(yes), self.float(no)))
    }

    /// Evaluates a polynomial by Horner's rule; `coefficients` begin with the highest power.
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
