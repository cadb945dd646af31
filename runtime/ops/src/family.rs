//! Code shared by related operators: schema, inference, kernels per core, threading, strides, bounds and tests.
//!
//! An operator is a file under `ops` that implements the trait of its family. Modules at this level serve several
//! families.

pub(crate) mod argument;
pub(crate) mod attention;
pub(crate) mod axes;
pub(crate) mod bounded;
pub(crate) mod control;
pub(crate) mod conv;
pub(crate) mod cumulative;
pub(crate) mod elementwise;
pub(crate) mod epilogue;
pub(crate) mod extents;
pub(crate) mod filled;
pub(crate) mod gpu;
pub(crate) mod layout;
pub(crate) mod matmul;
pub(crate) mod movement;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
pub(crate) mod norm;
#[cfg(test)]
pub(crate) mod numerics;
pub(crate) mod partition;
pub(crate) mod pooling;
pub(crate) mod quantize;
pub(crate) mod quantized;
pub(crate) mod random;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod region;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
pub(crate) mod resize;
pub(crate) mod results;
pub(crate) mod scatter;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod signal;
mod source;
pub(crate) mod special;
pub(crate) mod steps;
pub(crate) mod stored;
pub(crate) mod window;
