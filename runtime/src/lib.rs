//! Model in, results out: runs graphs of built-in and user operators on emulated cores.

pub mod build;
pub mod builtin;
pub mod model;
pub mod network;
mod pipeline;
pub mod quant;
pub mod runtime;
pub mod session;

pub use udo_compile::{compiler, hta, options, pass, place, plan, resolve};
pub use udo_engine::{
    cache, contain, cores, device, exit_guard, operators, package, run, thread_pool,
};
pub use udo_graph::{container, export, graph, import, memory, npy};
