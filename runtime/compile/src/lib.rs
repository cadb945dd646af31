//! A graph in, a plan out: finds operators and shapes, rewrites, places nodes on cores, and lays out memory.

pub mod build;
pub mod compiler;
pub mod hta;
pub mod options;
pub mod pass;
pub mod place;
pub mod plan;
pub mod resolve;
#[cfg(test)]
mod testing;
