//! Compiles a graph to a plan: resolves operators and shapes, rewrites the graph, places nodes on cores, and plans
//! memory.

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
