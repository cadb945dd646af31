//! The passes that know operators by name.

pub mod activation;
pub mod qdq;
