//! The passes that know operators by name. Each file matches one pattern of nodes and returns its replacement.

pub(super) mod activations;
pub(super) mod attention;
pub(super) mod epilogue;
pub(super) mod extents;
pub(super) mod identity;
pub(super) mod layer_norm;
pub(super) mod layouts;
pub(super) mod pad_fusion;
pub(super) mod qdq;
pub(super) mod quantized;
mod range_propagation;
pub(super) mod rms_norm;
mod rows;
pub(super) mod scale_folding;
