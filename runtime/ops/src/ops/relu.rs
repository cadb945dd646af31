//! Negative elements become 0; a NaN stays.

use crate::Def;
use crate::family::elementwise::{Curve, Unary, unary};

pub(crate) const DEF: Def = unary::<Relu>();

struct Relu;

impl Unary for Relu {
    const NAME: &'static str = "Relu";
    const F64: Option<fn(f64) -> f64> = Some(|x| if x < 0.0 { 0.0 } else { x });
    const INTS: Option<fn(i64) -> i64> = Some(|x| x.max(0));
    const OPENCL: &'static str = "x < 0.0f ? 0.0f : x";
    const TEST: Curve = Curve::of(|x| if x < 0.0 { 0.0 } else { x }).within(0.0);

    #[inline]
    fn of(x: f32) -> f32 {
        if x < 0.0 { 0.0 } else { x }
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{bench, tensor};

    #[test]
    fn a_nan_stays() {
        for core in [Core::CPU, Core::GPU] {
            let y = bench("Relu").on(core).input(tensor(&[2], &[f32::NAN, -1.0])).one();
            let y = y.values::<f32>();
            assert!(y[0].is_nan() && y[1].to_bits() == 0, "{core}: {y:?}");
        }
    }
}
