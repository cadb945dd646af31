//! The product of two tensors, with broadcasting. Integers wrap.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests. `OF_BITS` says that the OpenCL expression also holds for
//! wrapping integers.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Mul>();

struct Mul;

impl Binary for Mul {
    const NAME: &'static str = "Mul";
    const OPENCL: Option<&'static str> = Some("a * b");
    const OF_BITS: bool = true;
}

impl Pairs for Mul {
    const F64: fn(f64, f64) -> f64 = |a, b| a * b;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        a.mul(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.mul(a, b)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{bench, tensor};

    #[test]
    fn integers_wrap() {
        let run = bench("Mul").input(tensor(&[2], &[16i8, -3])).input(tensor(&[1], &[16i8]));
        assert_eq!(run.one().values::<i8>(), [0, -48]);
        for core in [Core::CPU, Core::GPU] {
            let run = bench("Mul").on(core).input(tensor(&[2], &[i32::MIN, -3]));
            assert_eq!(run.input(tensor(&[], &[-1i32])).one().values::<i32>(), [i32::MIN, 3]);
        }
    }
}
