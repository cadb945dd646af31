//! The runtime for programs in C and C++: the functions of `udo.h`, which is made of these files.
//!
//! Every function is a thin shell around one of the runtime's. Arguments are looked at first, then the runtime is called,
//! and what it refuses becomes an error that the caller owns. A panic stops in `unwind.rs` alone, and `ffi.rs` has the only
//! code that follows pointers. What else is here is safe code; unsafe are the attributes that export names, and what each structure
//! of options promises of its fields. No function is for Rust, which has the runtime itself.

mod argument;
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
pub mod handles;
pub mod memory;
pub mod model;
pub mod model_report;
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
mod text;
mod unwind;

/// Checks at compile time that handles may be passed to other threads.
const _: fn() = || {
    fn is_any_threads<T: Send + Sync>() {}
    is_any_threads::<error::Error>();
    is_any_threads::<graph::Graph>();
    is_any_threads::<graph::Support>();
    is_any_threads::<handles::Device>();
    is_any_threads::<handles::Runtime>();
    is_any_threads::<memory::Map>();
    is_any_threads::<memory::Memory>();
    is_any_threads::<model::Model>();
    is_any_threads::<network::Network>();
    is_any_threads::<network::Networks>();
    is_any_threads::<run::Launch>();
    is_any_threads::<run::Run>();
    is_any_threads::<run::Stream>();
    is_any_threads::<session::Session>();
    is_any_threads::<spec::TensorSpec>();
    is_any_threads::<tensor::Tensor>();
};
