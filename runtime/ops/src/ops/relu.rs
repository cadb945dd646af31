//! `max(x, 0)` of each element. NaN stays NaN.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have. Integers use `INT`. `WITHIN` is the
//! relative error that tests allow `lanes`.

use udo_api::{TypeSet, types};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Relu>();

struct Relu;

impl Unary for Relu {
    const NAME: &'static str = "Relu";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| if x < 0.0 { 0.0 } else { x };
    const INTS: TypeSet = types::SIGNED;
    const INT: fn(i128, [f64; 2]) -> i128 = |x, _| x.max(0);
    const OPENCL: &'static str = "x < 0.0f ? 0.0f : x";
    const WITHIN: f64 = 0.0;

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.select(s.lt(x, s.splat(0.0)), s.splat(0.0), x)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{bench, tensor};

    #[test]
    fn nan_stays_nan() {
        for core in [Core::CPU, Core::GPU] {
            let y = bench("Relu").on(core).input(tensor(&[2], &[f32::NAN, -1.0])).one();
            let y = y.values::<f32>();
            assert!(y[0].is_nan() && y[1].to_bits() == 0, "{core}: {y:?}");
        }
    }
}
