//! Uses ONNX's `DequantizeLinear`, whose newest version accepts all that this operator does.

pub(crate) use crate::ops::dequantize_linear::DEF;
