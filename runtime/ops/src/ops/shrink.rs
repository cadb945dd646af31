//! Moves each element towards 0 by `bias`; elements within `lambd` of 0 become 0. NaN stays NaN.
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameters as `p` and `q`. Integers use `F64` too.

use udo_api::{Param, TypeSet, types};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, real, unary};

pub(crate) const DEF: Def = unary::<Shrink>();

struct Shrink;

impl Unary for Shrink {
    const NAME: &'static str = "Shrink";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const PARAMS: &'static [Param] = &[real("bias", 0.0), real("lambd", 0.5)];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [bias, lambd]| match x {
        x if x < -lambd => x + bias,
        x if x <= lambd => 0.0,
        x => x - bias,
    };
    const INTS: TypeSet = types::INTS;
    const OPENCL: &'static str = "x < -q ? x + p : x <= q ? 0.0f : x - p";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [bias, lambd]: [f32; 2]) -> S::F {
        let (bias, upper, lower) = (s.splat(bias), s.splat(lambd), s.splat(-lambd));
        let not_below = s.select(s.le(x, upper), s.splat(0.0), s.sub(x, bias));
        s.select(s.lt(x, lower), s.add(x, bias), not_below)
    }
}
