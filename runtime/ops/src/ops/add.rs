//! The sum of two tensors, with broadcasting. Integers wrap.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests. `OF_BITS` says that the OpenCL expression also holds for
//! wrapping integers.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Add>();

struct Add;

impl Binary for Add {
    const NAME: &'static str = "Add";
    const OPENCL: Option<&'static str> = Some("a + b");
    const OF_BITS: bool = true;
}

impl Pairs for Add {
    const F64: fn(f64, f64) -> f64 = |a, b| a + b;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        a.add(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{bench, tensor};

    #[test]
    fn integers_wrap() {
        let run = bench("Add").input(tensor(&[2], &[250u8, 1])).input(tensor(&[2], &[10u8, 2]));
        assert_eq!(run.one().values::<u8>(), [4, 3]);
        for core in [Core::CPU, Core::GPU] {
            let run = bench("Add").on(core).input(tensor(&[2], &[i64::MAX, -3]));
            assert_eq!(run.input(tensor(&[], &[1i64])).one().values::<i64>(), [i64::MIN, -2]);
        }
    }
}
