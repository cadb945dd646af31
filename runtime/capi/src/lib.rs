//! The runtime for programs in C and C++: the functions of `udo.h`, which is made of these files.
//!
//! Every function is a thin shell around one of the runtime's. Arguments are looked at first, then the runtime is called,
//! and what it refuses becomes an error that the caller owns. `ffi.rs` has the one place where a panic stops, and the only
//! code that follows pointers; what else is here is safe code. No function is for Rust, which has the runtime itself.

mod born;
pub mod cached;
pub mod codes;
pub mod cores;
pub mod device;
pub mod error;
#[cfg(target_os = "linux")]
pub mod fd;
pub mod ffi;
pub mod graph;
pub mod memory;
pub mod model;
pub mod network;
pub mod packages;
pub mod pool;
mod ports;
pub mod report;
pub mod run;
pub mod runtime;
pub mod session;
pub mod spec;
pub mod tensor;
