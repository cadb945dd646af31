//! Model in, results out: runs graphs of built-in and user operators on emulated cores.

pub mod build;
pub mod cache;
#[cfg_attr(not(target_os = "linux"), path = "contain/none.rs")]
pub mod contain;
pub mod container;
pub mod cores;
pub mod device;
pub mod exit_guard;
pub mod export;
pub mod graph;
pub mod hta;
pub mod import;
pub mod memory;
pub mod model;
pub mod network;
pub mod npy;
pub mod package;
pub mod pass;
pub mod place;
pub mod plan;
pub mod quant;
pub mod registry;
pub mod resolve;
pub mod run;
pub mod runtime;
pub mod session;
pub mod thread_pool;
