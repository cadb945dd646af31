//! The passes that know operators by name.

pub(super) mod activation;
pub(super) mod batch_norm;
pub(super) mod qdq;
