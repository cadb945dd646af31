//! What members of a family share: schema, inference, kernels per core, threading, strides, bounds and tests.
//!
//! A member is a file under `ops`, and says what is its own.

pub(crate) mod elementwise;
