//! That of ONNX: the newest one takes all that this one does.

pub(crate) use crate::ops::quantize_linear::DEF;
