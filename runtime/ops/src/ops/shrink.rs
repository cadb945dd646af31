//! Moves each element towards 0 by `bias`; elements within `lambd` of 0 become 0. NaN stays NaN.

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
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [bias, limit]| match x {
        x if x < -limit => x + bias,
        x if x <= limit => 0.0,
        x => x - bias,
    };
    const INTS: TypeSet = types::INTS;
    const OPENCL: &'static str = "x < -q ? x + p : x <= q ? 0.0f : x - p";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [bias, limit]: [f32; 2]) -> S::F {
        let (bias, above, below) = (s.splat(bias), s.splat(limit), s.splat(-limit));
        let inner = s.select(s.le(x, above), s.splat(0.0), s.sub(x, bias));
        s.select(s.lt(x, below), s.add(x, bias), inner)
    }
}
