//! The hyperbolic tangent of each element.

use udo_simd::math;

use crate::Def;
use crate::family::elementwise::{Curve, Slices, Unary, unary};

pub(crate) const DEF: Def = unary::<Tanh>();

struct Tanh;

impl Unary for Tanh {
    const NAME: &'static str = "Tanh";
    const F32: Option<Slices> = Some(Slices { apart: math::tanh, in_place: math::tanh_in_place });
    const F64: Option<fn(f64) -> f64> = Some(f64::tanh);
    const OPENCL: &'static str = "tanh(x)";
    const TEST: Curve = Curve::of(f64::tanh).within(1e-6);

    #[inline]
    fn of(x: f32) -> f32 {
        x.tanh()
    }
}
