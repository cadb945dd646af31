//! `x * clamp(x / 6 + 1/2, 0, 1)` of each element.

use crate::Def;
use crate::family::elementwise::{Curve, Unary, unary};

pub(crate) const DEF: Def = unary::<HardSwish>();

struct HardSwish;

impl Unary for HardSwish {
    const NAME: &'static str = "HardSwish";
    const F64: Option<fn(f64) -> f64> = Some(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
    const OPENCL: &'static str = "x * clamp(x / 6.0f + 0.5f, 0.0f, 1.0f)";
    const TEST: Curve = Curve::of(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)).within(1e-6);

    #[inline]
    fn of(x: f32) -> f32 {
        x * (x / 6.0 + 0.5).clamp(0.0, 1.0)
    }
}
