//! `x` if not negative, else `alpha x`, of quantized values.
//!
//! `quantized_unary` builds the operator from `apply`, which computes on dequantized values; `ALPHA` is the default of
//! the parameter `alpha`.

use crate::Def;
use crate::family::quantized::{QuantizedUnary, quantized_unary};

pub(crate) const DEF: Def = quantized_unary::<QLinearLeakyRelu>();

struct QLinearLeakyRelu;

impl QuantizedUnary for QLinearLeakyRelu {
    const NAME: &'static str = "QLinearLeakyRelu";
    const ALPHA: Option<f64> = Some(0.01);

    fn apply(x: f32, alpha: f32) -> f32 {
        if x < 0.0 { alpha * x } else { x }
    }
}
