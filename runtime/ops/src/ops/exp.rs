//! The exponential function of each element.
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Exp>();

struct Exp;

impl Unary for Exp {
    const NAME: &'static str = "Exp";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x.exp();
    // OpenCL allows `exp` an error of 3 ulp, which is large relative to a denormal. Below -80 the argument is shifted
    // by 64 to a normal result, then scaled by e^-64.
    const OPENCL: &'static str = "x < -80.0f ? exp(x + 64.0f) * 1.6038109e-28f : exp(x)";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        s.exp(x)
    }
}
