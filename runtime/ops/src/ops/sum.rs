//! The sum of any number of tensors, with broadcasting.
//!
//! `repeated` builds the operator from a function of two elements: the result so far and the next operand, which are
//! `y` and `x` in OpenCL. `apply` computes every type but `f32`, `lanes` one SIMD vector of `f32`, and `F64` is the
//! reference of tests.

use udo_api::{TypeSet, types};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Pairs, Repeated, repeated};
use crate::number::Number;

pub(crate) const DEF: Def = repeated::<Sum>();

struct Sum;

impl Repeated for Sum {
    const NAME: &'static str = "Sum";
    const OUTPUT: &'static str = "sum";
    const OPENCL: &'static str = "y + x";
    const TYPES: TypeSet = types::FLOATS;
}

impl Pairs for Sum {
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
