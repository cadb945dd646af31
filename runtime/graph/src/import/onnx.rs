//! ONNX files.

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

/// Whether bytes start as writers start an ONNX file: with the version of its format, which is small.
pub(crate) fn sniff(bytes: &[u8]) -> bool {
    matches!(bytes, [0x08, 1..=0x7f, ..])
}

/// The graph in the bytes of an ONNX file; `name` is what to call it in messages.
///
/// `Constant` nodes become constants, as do sparse tensors, and inputs that the model has elements for unless
/// [`ImportOptions::given`] names them. Optional
/// inputs and outputs left out at a node's end are dropped. Subgraphs capture what they read of outer
/// graphs; a name that a subgraph has for a value of its own means that one in all of it. A node that calls a function of
/// the model gives its place to the function's nodes, unless a package has an operator for it.
///
/// # Errors
/// Bytes that are no model, a model that breaks ONNX's rules, or one with something in it that
/// the graph cannot say: sequences, texts, narrow floats.
pub(crate) fn import(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    model::graph(bytes, name, options)
}

#[cfg(test)]
mod tests;
