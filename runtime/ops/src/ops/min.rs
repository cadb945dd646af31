//! The minimum of any number of tensors, with broadcasting. NaN counts as smaller than any value.
//!
//! `repeated` builds the operator from a function of two elements: the result so far and the next operand, which are
//! `y` and `x` in OpenCL. `apply` computes every type but `f32`, `lanes` one SIMD vector of `f32`, and `F64` is the
//! reference of tests.

use udo_api::{TypeSet, types};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Pairs, Repeated, repeated};
use crate::family::reduce::{Accumulate, Least};
use crate::number::Number;

pub(crate) const DEF: Def = repeated::<Min>();

struct Min;

impl Repeated for Min {
    const NAME: &'static str = "Min";
    const OUTPUT: &'static str = "min";
    const OPENCL: &'static str = <Least as Accumulate>::OPENCL[1];
    const TYPES: TypeSet = types::NUMBERS;
}

impl Pairs for Min {
    const F64: fn(f64, f64) -> f64 = Least::take;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        Least::take(a, b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.select(s.eq(a, a), s.min(a, b), a)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn nan_in_either_operand_gives_nan() {
        let run = bench("Min").input(tensor(&[3], &[f32::NAN, 1.0, 2.0]));
        let y = run.input(tensor(&[3], &[1.0, f32::NAN, 3.0])).one();
        assert_near(&y.values::<f32>(), &[f64::NAN, f64::NAN, 2.0], 0.0);
    }
}
