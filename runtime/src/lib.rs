//! Model in, results out: runs graphs of built-in and user operators on emulated cores.

pub mod build;
pub mod builtin;
mod executor;
pub mod model;
mod pipeline;
pub mod quant;
pub mod runtime;
pub mod session;

pub use udo_compile::{compiler, hta, options, pass, place, plan, resolve};
pub use udo_engine::{
    cache, contain, cores, device, exit_guard, operators, package, run, thread_pool,
};
pub use udo_graph::{container, export, graph, import, memory, npy};

pub use device::{Device, Error};
pub use memory::Tensor;
pub use model::Model;
pub use options::CompileOptions;
pub use plan::Report;
pub use run::Run;
pub use runtime::{LoadError, LoadOptions, LoadSource, Runtime};
pub use session::{Session, SessionPool};
pub use udo_api::{Core, DType, Shape};

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub mod readme {}
