//! The remainder of a division, with broadcasting. It has the sign of the divisor, or with `fmod` that of the dividend;
//! floating-point types require `fmod`. The remainder of an integer divided by 0 is 0.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests.

use udo_api::{DType, Error, FinalizeCx, Param, Value};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, Run, binary, lane_by_lane, run_of};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Mod>();

struct Mod;

impl Binary for Mod {
    const NAME: &'static str = "Mod";
    const PARAMS: &'static [Param] = &[Param::scalar("fmod", DType::I64).default(Value::int(0))];
    const OPENCL: Option<&'static str> = None;

    fn of_type(cx: &FinalizeCx<'_>, dtype: Option<DType>) -> Result<Run, Error> {
        if cx.flag("fmod")? { run_of::<Fmod>(dtype) } else { run_of::<Self>(dtype) }
    }
}

/// The remainder with the sign of the divisor.
impl Pairs for Mod {
    const F64: fn(f64, f64) -> f64 = <Self as Pairs>::apply;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        let remainder = a.rem(b);
        let has_other_sign = (remainder < T::ZERO) != (b < T::ZERO);
        if remainder != T::ZERO && has_other_sign { remainder.add(b) } else { remainder }
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        lane_by_lane(s, a, b, <Self as Pairs>::apply)
    }
}

/// The remainder with the sign of the dividend.
struct Fmod;

impl Pairs for Fmod {
    const F64: fn(f64, f64) -> f64 = |a, b| a % b;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        a.rem(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        lane_by_lane(s, a, b, |a, b| a % b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn the_sign_follows_the_divisor_or_the_dividend() {
        let run = bench("Mod").input(tensor(&[6], &[-4i64, 7, 5, 4, -7, 8]));
        let run = run.input(tensor(&[6], &[2i64, -3, 8, -2, 3, 0]));
        assert_eq!(run.clone().one().values::<i64>(), [0, -2, 5, 0, 2, 0]);
        assert_eq!(run.int("fmod", 1).one().values::<i64>(), [0, 1, 5, 0, -1, 0]);
        let run = bench("Mod").input(tensor(&[2], &[-4.3f32, 7.2])).input(tensor(&[], &[2f32]));
        assert_eq!(run.int("fmod", 1).one().values::<f32>(), [-4.3f32 % 2.0, 7.2f32 % 2.0]);
        let run = bench("Mod").input(tensor(&[1], &[i8::MIN])).input(tensor(&[1], &[-1i8]));
        assert_eq!(run.one().values::<i8>(), [0]);
    }
}
