//! The logistic function of each element.

use udo_simd::math;

use crate::Def;
use crate::family::elementwise::{Curve, Slices, Unary, unary};

pub(crate) const DEF: Def = unary::<Sigmoid>();

pub(super) struct Sigmoid;

impl Unary for Sigmoid {
    const NAME: &'static str = "Sigmoid";
    const F32: Option<Slices> =
        Some(Slices { apart: math::sigmoid, in_place: math::sigmoid_in_place });
    const F64: Option<fn(f64) -> f64> = Some(|x| 1.0 / (1.0 + (-x).exp()));
    const OPENCL: &'static str = "1.0f / (1.0f + exp(-x))";
    const TEST: Curve = Curve::of(|x| 1.0 / (1.0 + (-x).exp())).within(1e-6);

    #[inline]
    fn of(x: f32) -> f32 {
        1.0 / (1.0 + (-x).exp())
    }
}
