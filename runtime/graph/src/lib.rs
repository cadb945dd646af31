//! Graphs and the tensors in them: what they are, how they are built and checked, and the files that they come from and go to.

pub mod container;
pub mod error;
pub mod export;
pub mod graph;
pub mod image_input;
pub mod import;
pub mod memory;
pub mod npy;
