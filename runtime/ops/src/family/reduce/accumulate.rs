//! The ways in which many numbers become one.

use udo_api::{TypeSet, types};
use udo_simd::{Fold, Simd};

use crate::number::Number;

/// A way in which many numbers become one, for every type and core. As a [`Fold`] it is that of `f32`.
pub(crate) trait Accumulate: Fold + Default + Send + Sync + 'static {
    /// The types that the CPU computes.
    const TYPES: TypeSet = types::F32.or(types::F64).or(WIDE);
    /// Whether the CPU computes it of truths as well.
    const OF_TRUTHS: bool = false;
    /// OpenCL expressions: what no numbers give, and what `y` becomes by the next one, `x`.
    const OPENCL: [&'static str; 2];

    /// What no numbers give.
    fn none<T: Number>() -> T;

    /// What `y` becomes by the next number.
    fn take<T: Number>(y: T, x: T) -> T;

    /// What two runs of numbers give together.
    fn merge<T: Number>(a: T, b: T) -> T;
}

/// The integers that numbers may be added up in.
const WIDE: TypeSet = types::I32.or(types::I64).or(types::U32).or(types::U64);

/// Sums of what each number counts for: a type, its vector form, its form for one number, and the OpenCL of that.
macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident, |$s:ident, $v:ident, $sum:ident| $vector:expr, |$x:ident| $of:expr, $opencl:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $name;

        impl Fold for $name {
            const START: f32 = 0.0;

            #[inline(always)]
            fn step<S: Simd>(self, $s: S, $sum: S::F, $v: S::F) -> S::F {
                $vector
            }

            #[inline(always)]
            fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
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
                y.add($of)
            }

            #[inline]
            fn merge<T: Number>(a: T, b: T) -> T {
                a.add(b)
            }
        }
    )*};
}

sums! {
    /// The sum.
    Sum, |s, x, sum| s.add(sum, x), |x| x, "y + x";
}
