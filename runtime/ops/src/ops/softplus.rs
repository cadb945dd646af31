//! `log(1 + exp(x))` of each element.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Softplus>();

struct Softplus;

impl Unary for Softplus {
    const NAME: &'static str = "Softplus";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x.max(0.0) + (-x.abs()).exp().ln_1p();
    // OpenCL allows `exp` an error of 3 ulp, which is large relative to a denormal. For very negative `x`, `log(1 + e)
    // = e`; the argument is shifted by 64 to a normal result, then scaled by e^-64.
    const OPENCL: &'static str =
        "x < -80.0f ? exp(x + 64.0f) * 1.6038109e-28f : fmax(x, 0.0f) + log1p(exp(-fabs(x)))";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        let above_max = s.log1p(s.exp(s.neg(s.abs(x))));
        s.add(s.max(s.splat(0.0), x), above_max)
    }
}
