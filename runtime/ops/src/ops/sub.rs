//! The difference of two tensors, with broadcasting. Integers wrap.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests. `OF_BITS` says that the OpenCL expression also holds for
//! wrapping integers.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<Sub>();

struct Sub;

impl Binary for Sub {
    const NAME: &'static str = "Sub";
    const OPENCL: Option<&'static str> = Some("a - b");
    const OF_BITS: bool = true;
}

impl Pairs for Sub {
    const F64: fn(f64, f64) -> f64 = |a, b| a - b;

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        a.sub(b)
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.sub(a, b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn integers_wrap() {
        let run = bench("Sub").input(tensor(&[2], &[1u8, 7])).input(tensor(&[1], &[3u8]));
        assert_eq!(run.one().values::<u8>(), [254, 4]);
    }
}
