//! Elementary functions as formulas over [`Simd`](super::Simd), for any instruction set. AVX-512 replaces some of them
//! with look-ups in tables.

pub(super) mod erf;
pub(super) mod exp;
pub(super) mod hyperbolic;
pub(super) mod inverse;
pub(super) mod log;
pub(super) mod rsqrt;
pub(super) mod sigmoid;
pub(super) mod tanh;
pub(super) mod trig;

/// Implements methods of `Simd` for an instruction set: each calls the function on the right.
macro_rules! by_formula {
    ($($name:ident = $formula:path),* $(,)?) => {$(
        #[inline(always)]
        fn $name(self, x: Self::F) -> Self::F {
            $formula(self, x)
        }
    )*};
}
pub(super) use by_formula;
