//! The passes that know operators by name.

pub mod qdq;
