//! The passes that know operators by name.

pub(super) mod activations;
pub(super) mod attention;
mod derived;
pub(super) mod epilogue;
pub(super) mod extents;
pub(super) mod layer_norm;
pub(super) mod layouts;
pub(super) mod pads;
pub(super) mod qdq;
pub(super) mod quantized;
pub(super) mod rms_norm;
mod rows;
pub(super) mod same;
pub(super) mod scales;
