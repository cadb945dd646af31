//! `x * Phi(x)`, with `Phi` the standard normal distribution function, exactly or in its tanh approximation (Hendrycks
//! and Gimpel, 2016, <https://arxiv.org/abs/1606.08415>).
//!
//! `unary` builds the operator from this function of an element and up to two parameters. `F64` computes `f64`
//! elements, and tests compare the others with it: `lanes` computes one SIMD vector of `f32` on the CPU, and `OPENCL`
//! is the expression of the GPU kernel, with the parameter as `p`.

use udo_api::{Error, FinalizeCx, Param, Value};
use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Unary, unary};
use crate::family::special::{gelu, gelu_lanes};

pub(crate) const DEF: Def = unary::<Gelu>();

/// `sqrt(2 / pi)`.
const SCALE: f64 = 0.797_884_560_802_865_4;
/// The coefficient of the cubic term, from the same paper.
const CUBIC: f64 = 0.044_715;

struct Gelu;

impl Unary for Gelu {
    const NAME: &'static str = "Gelu";
    const PARAMS: &'static [Param] = &[Param::text("approximate").default(Value::text("none"))];
    const F64: fn(f64, [f64; 2]) -> f64 = |x, [by_tanh, _]| {
        if by_tanh == 0.0 {
            gelu(x)
        } else {
            // `(1 + tanh(z)) / 2` equals `1 / (1 + exp(-2 z))`, which does not cancel for negative `z`.
            x / (1.0 + (-2.0 * SCALE * (x + CUBIC * x * x * x)).exp())
        }
    };
    const OPENCL: &'static str = "p == 0.0f ? 0.5f * x * erfc(-0.70710678f * x) \
         : x / (1.0f + exp(-1.59576912f * (x + 0.044715f * x * x * x)))";

    /// Returns 1 as the first parameter for the tanh approximation.
    fn params(cx: &FinalizeCx<'_>) -> Result<[f32; 2], Error> {
        match cx.text("approximate")? {
            "none" => Ok([0.0; 2]),
            "tanh" => Ok([1.0, 0.0]),
            other => Err(Error::new(format!(
                "parameter \"approximate\" is {other:?}, expected \"none\" or \"tanh\""
            ))),
        }
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: S::F, [by_tanh, _]: [f32; 2]) -> S::F {
        if by_tanh == 0.0 {
            return gelu_lanes(s, x);
        }
        let cube = s.mul(s.mul(x, x), x);
        let twice = s.splat(2.0 * SCALE as f32);
        s.mul(x, s.sigmoid(s.mul(twice, s.fma(s.splat(CUBIC as f32), cube, x))))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use super::*;
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn the_approximation_is_selected_by_name() {
        let x: Vec<f32> = (-80..=80).map(|i| i as f32 / 16.0).collect();
        let node = bench("Gelu").input(tensor(&[x.len()], &x));
        for (name, by_tanh) in [("none", 0.0), ("tanh", 1.0)] {
            let expected = x.iter().map(|&x| (Gelu::F64)(x.into(), [by_tanh, 0.0]));
            let expected: Vec<f64> = expected.collect();
            for core in [Core::CPU, Core::GPU] {
                let y = node.clone().on(core).text("approximate", name).one();
                assert_near(&y.values::<f32>(), &expected, 1e-6);
            }
        }
        let error = node.text("approximate", "erf").error();
        assert_eq!(error, "parameter \"approximate\" is \"erf\", expected \"none\" or \"tanh\"");
    }

    #[test]
    fn tiny_outputs_keep_precision() {
        let node = bench("Gelu").text("approximate", "tanh").input(tensor(&[2], &[-6f32, -8.0]));
        let y = node.one().values::<f32>();
        let expected = [-6f64, -8.0].map(|x| (Gelu::F64)(x, [1.0, 0.0]));
        for (y, expected) in y.iter().zip(expected) {
            assert!((f64::from(*y) / expected - 1.0).abs() < 1e-4, "{y:e} {expected:e}");
        }
    }

    #[test]
    fn both_versions_match_known_values_at_one() {
        for (params, expected) in
            [([0.0; 2], 0.841_344_746_068_542_9), ([1.0, 0.0], 0.841_191_990_607_766)]
        {
            assert!(((Gelu::F64)(1.0, params) - expected).abs() < 1e-12, "{params:?}");
        }
    }
}
