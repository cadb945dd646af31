//! `1 / (1 + exp(-x))` of each quantized value.
//!
//! `quantized_unary` builds the operator from `apply`, which computes on dequantized values.

use crate::Def;
use crate::family::quantized::{QuantizedUnary, quantized_unary};

pub(crate) const DEF: Def = quantized_unary::<QLinearSigmoid>();

struct QLinearSigmoid;

impl QuantizedUnary for QLinearSigmoid {
    const NAME: &'static str = "QLinearSigmoid";

    fn apply(x: f32, _: f32) -> f32 {
        1.0 / (1.0 + (-x).exp())
    }
}
