//! The execution engine: devices and their memory, threads, queues of runs, packages with their operators and kernels,
//! and the cache of prepacked weights.

pub mod cache;
pub mod constants;
#[cfg_attr(not(target_os = "linux"), path = "contain/none.rs")]
pub mod contain;
pub mod cores;
pub mod device;
pub mod exit_guard;
pub mod operators;
pub mod package;
pub mod run;
pub mod thread_pool;
