//! Accumulators of reductions: sums, products, extremes and log-sum-exp.

use std::cmp::Ordering;

use udo_api::{TypeSet, types};
use udo_simd::{Fold, Simd};

use crate::number::Number;

/// An accumulator for every type and core. Its [`Fold`] implementation is the f32 version.
pub(crate) trait Accumulate: Fold + Default + Send + Sync + 'static {
    /// The types that the CPU kernel supports.
    const TYPES: TypeSet = types::F32.or(types::F64).or(WIDE);
    /// Whether the CPU supports bools.
    const SUPPORTS_BOOL: bool = false;
    /// Whether integers are accumulated in f64: set if intermediate results are not integers.
    const IN_F64: bool = false;
    /// OpenCL expressions: the initial value, and the update of `y` by `x`.
    const OPENCL: [&'static str; 2];

    /// Returns the initial value.
    fn none<T: Number>() -> T;

    /// Returns `y` updated by `x`.
    fn take<T: Number>(y: T, x: T) -> T;

    /// Merges two partial results.
    fn merge<T: Number>(a: T, b: T) -> T;
}

/// The integer types of accumulators; sums of narrower types would overflow.
const WIDE: TypeSet = types::I32.or(types::I64).or(types::U32).or(types::U64);

/// Defines sums of a function of each element: type name, vector version, scalar version, OpenCL update.
macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident, |$s:ident, $v:ident, $sum:ident| $vector:expr, |$x:ident| $term:expr, $opencl:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $name;

        impl Fold for $name {
            const IDENTITY: f32 = 0.0;

            #[inline(always)]
            fn step<S: Simd>(self, $s: S, $sum: S::F, $v: S::F) -> S::F {
                $vector
            }

            #[inline(always)]
            fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
                s.add(a, b)
            }
        }

        impl Accumulate for $name {
            const OPENCL: [&'static str; 2] = ["0.0f", $opencl];

            #[inline]
            fn none<T: Number>() -> T {
                T::ZERO
            }

            #[inline]
            fn take<T: Number>(y: T, $x: T) -> T {
                y.add($term)
            }

            #[inline]
            fn merge<T: Number>(a: T, b: T) -> T {
                a.add(b)
            }
        }
    )*};
}

sums! {
    /// `sum(x)`.
    Sum, |s, x, sum| s.add(sum, x), |x| x, "y + x";
    /// `sum(|x|)`.
    SumOfSizes, |s, x, sum| s.add(sum, s.abs(x)), |x| if x < T::ZERO { T::ZERO.sub(x) } else { x }, "y + fabs(x)";
    /// `sum(x^2)`.
    SumOfSquares, |s, x, sum| s.fma(x, x, sum), |x| x.mul(x), "y + x * x";
}

/// `product(x)`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Product;

impl Fold for Product {
    const IDENTITY: f32 = 1.0;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, current: S::F, x: S::F) -> S::F {
        s.mul(current, x)
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.mul(a, b)
    }
}

impl Accumulate for Product {
    const OPENCL: [&'static str; 2] = ["1.0f", "y * x"];

    #[inline]
    fn none<T: Number>() -> T {
        T::from_f64(1.0)
    }

    #[inline]
    fn take<T: Number>(y: T, x: T) -> T {
        y.mul(x)
    }

    #[inline]
    fn merge<T: Number>(a: T, b: T) -> T {
        a.mul(b)
    }
}

/// Defines maximum and minimum, which propagate NaN: type name, initial value, vector operation, the ordering in which
/// the current value stays, OpenCL.
macro_rules! extremes {
    ($($(#[$doc:meta])* $name:ident, $start:expr, $limit:ident, $better:ident, $stays:pat, $opencl:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $name;

        impl Fold for $name {
            const IDENTITY: f32 = $start;

            #[inline(always)]
            fn step<S: Simd>(self, s: S, current: S::F, x: S::F) -> S::F {
                // `max` and `min` return the second operand if either is NaN, so the result is NaN if `x` is. If
                // `current` is NaN (it differs from itself), the select returns it.
                s.select(s.eq(current, current), s.$better(current, x), current)
            }

            #[inline(always)]
            fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
                self.step(s, a, b)
            }
        }

        impl Accumulate for $name {
            const TYPES: TypeSet = <Sum as Accumulate>::TYPES.or(types::I8).or(types::U8);
            const SUPPORTS_BOOL: bool = true;
            const OPENCL: [&'static str; 2] = $opencl;

            #[inline]
            fn none<T: Number>() -> T {
                T::$limit
            }

            #[inline]
            fn take<T: Number>(y: T, x: T) -> T {
                match y.partial_cmp(&x) {
                    Some($stays) => y,
                    Some(_) => x,
                    // One of them is NaN, and so is their sum.
                    None => y.add(x),
                }
            }

            #[inline]
            fn merge<T: Number>(a: T, b: T) -> T {
                Self::take(a, b)
            }
        }
    )*};
}

extremes! {
    /// `max(x)`.
    Greatest, f32::NEG_INFINITY, LOWEST, max, Ordering::Greater, ["-INFINITY", "y > x || isnan(y) ? y : x"];
    /// `min(x)`.
    Least, f32::INFINITY, HIGHEST, min, Ordering::Less, ["INFINITY", "y < x || isnan(y) ? y : x"];
}

/// `log(sum(exp(x)))`, accumulated as `max(y, x) + log(1 + exp(-|y - x|))`, so that no exponential overflows.
#[derive(Clone, Copy, Default)]
pub(crate) struct LogOfSumOfPowers;

impl Fold for LogOfSumOfPowers {
    const IDENTITY: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, current: S::F, x: S::F) -> S::F {
        let difference = s.neg(s.abs(s.sub(current, x)));
        // Equal infinities would give NaN.
        let difference = s.select(s.eq(current, x), s.splat(0.0), difference);
        s.add(s.max(current, x), s.log(s.add(s.splat(1.0), s.exp(difference))))
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        self.step(s, a, b)
    }
}

impl Accumulate for LogOfSumOfPowers {
    const IN_F64: bool = true;
    const OPENCL: [&'static str; 2] =
        ["-INFINITY", "fmax(y, x) + log1p(y == x ? 1.0f : exp(-fabs(y - x)))"];

    #[inline]
    fn none<T: Number>() -> T {
        T::LOWEST
    }

    #[inline]
    fn take<T: Number>(y: T, x: T) -> T {
        let (y, x) = (y.to_f64(), x.to_f64());
        let difference = if y.total_cmp(&x).is_eq() { 0.0 } else { -(y - x).abs() };
        T::from_f64(y.max(x) + difference.exp().ln_1p())
    }

    #[inline]
    fn merge<T: Number>(a: T, b: T) -> T {
        Self::take(a, b)
    }
}
