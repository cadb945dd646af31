//! Product of two quantized tensors, with broadcasting.

use crate::Def;
use crate::family::quantized::{QuantizedBinary, quantized_binary};

pub(crate) const DEF: Def = quantized_binary::<QLinearMul>();

struct QLinearMul;

impl QuantizedBinary for QLinearMul {
    const NAME: &'static str = "QLinearMul";

    fn of(a: f32, b: f32) -> f32 {
        a * b
    }
}
