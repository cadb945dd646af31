//! Graphs in, files of other tools' formats out.

pub mod onnx;
