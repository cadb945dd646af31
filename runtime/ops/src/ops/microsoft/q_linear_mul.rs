//! The product of two quantized tensors, with broadcasting. Each operand and the result have a scale and a zero point.
//!
//! `quantized_binary` builds the operator: it computes on dequantized values and requantizes the result.

use udo_simd::rows::Arithmetic;

use crate::Def;
use crate::family::quantized::{QuantizedBinary, quantized_binary};

pub(crate) const DEF: Def = quantized_binary::<QLinearMul>();

struct QLinearMul;

impl QuantizedBinary for QLinearMul {
    const NAME: &'static str = "QLinearMul";
    const ARITHMETIC: Arithmetic = Arithmetic::Product;
}
