//! The error function of each element.

use udo_simd::math;

use crate::Def;
use crate::family::elementwise::{Curve, Slices, Unary, unary};

pub(crate) const DEF: Def = unary::<Erf>();

struct Erf;

impl Unary for Erf {
    const NAME: &'static str = "Erf";
    const PORTS: [&'static str; 2] = ["input", "output"];
    const F32: Option<Slices> = Some(Slices { apart: math::erf, in_place: math::erf_in_place });
    const OPENCL: &'static str = "erf(x)";
    const TEST: Curve = Curve::through(&[
        (0.0, 0.0),
        (0.5, 0.520_499_877_813_046_5),
        (-1.0, -0.842_700_792_949_714_9),
        (3.0, 0.999_977_909_503_001_4),
        (f64::INFINITY, 1.0),
    ])
    .within(1e-6);

    fn of(x: f32) -> f32 {
        let mut one = [x];
        math::erf_in_place(&mut one);
        one[0]
    }
}
