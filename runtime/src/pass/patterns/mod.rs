//! The passes that know operators by name.

pub(super) mod batch_norm;
pub(super) mod epilogue;
pub(super) mod qdq;
