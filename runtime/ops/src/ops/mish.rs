//! `x tanh(log(1 + exp(x)))` of each element (Misra, 2019, <https://arxiv.org/abs/1908.08681>).
//!
//! `unary` builds the operator from this function of an element. `F64` computes `f64` elements, and tests compare the
//! others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL` is the expression of the GPU
//! kernel. The arrays are for parameters, which this operator does not have.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};

pub(crate) const DEF: Def = unary::<Mish>();

struct Mish;

impl Unary for Mish {
    const NAME: &'static str = "Mish";
    const F64: fn(f64, [f64; 2]) -> f64 = |x, _| x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh();
    const OPENCL: &'static str = "x * tanh(fmax(x, 0.0f) + log1p(exp(-fabs(x))))";

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, _: [f32; 2]) -> S::F {
        // With `e = exp(x)` and `n = e (e + 2)`, `tanh(log(1 + e))` is `n / (n + 2)`. It rounds to 1 from 20 on, so `x`
        // is clamped there.
        let e = s.exp(s.min(s.splat(20.0), x));
        let two = s.splat(2.0);
        let n = s.mul(e, s.add(e, two));
        s.mul(x, s.div(n, s.add(n, two)))
    }
}
