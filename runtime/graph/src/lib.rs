//! Graphs and tensors, the base of the runtime: their types and checks, the importers of model files (ONNX, `.udm`,
//! printed text), and the writers.

pub mod container;
pub mod error;
pub mod export;
pub mod graph;
pub mod image_input;
pub mod import;
pub mod memory;
pub mod npy;
