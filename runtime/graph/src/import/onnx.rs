//! The importer of ONNX files.

mod attribute;
mod external;
mod four_bits;
mod function;
mod graph;
mod model;
mod opsets;
pub(crate) mod proto;
mod raw;
mod scope;
mod sparse;
mod state;
mod tensor;
mod types;

use super::{ImportError, ImportOptions, ModelBytes, PackagedOp};
use crate::graph::Graph;

pub use tensor::tensor_pb;
pub(crate) use tensor::to_proto;

/// Whether bytes begin like an ONNX file: writers put `ir_version` first, a small number.
pub(crate) fn sniff(bytes: &[u8]) -> bool {
    matches!(bytes, [0x08, 1..=0x7f, ..])
}

/// Imports an ONNX file; `name` identifies it in messages.
///
/// * `Constant` nodes and sparse initializers become constants.
/// * Inputs with an initializer become constants unless [`ImportOptions::given`] names them.
/// * Trailing optional inputs and outputs that are left out are dropped.
/// * Subgraphs capture the values of outer graphs that they read. A name defined in a subgraph shadows the same name of
///   an outer graph.
/// * A node that calls a function of the model is replaced by the function's nodes, unless a package implements the
///   operator.
///
/// # Errors
/// Fails if the bytes are not an ONNX model, the model violates ONNX's rules, or it uses something that a graph cannot
/// represent: sequences as inputs, strings as constants, 8-bit and narrower floats.
pub(crate) fn import(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    model::graph(bytes, name, options)
}

#[cfg(test)]
mod tests;
