//! The host's side of the contract: builds the argument blocks of [`udo_api::abi`], calls the functions that
//! packages register, and reads their results.
//!
//! It does not depend on models or plans: a node is a slice of descriptions, constants are bytes, and
//! parameters are a slice of settings. The runtime executes plans with it; tests run single kernels.

mod call;
mod callee;
mod geometry;
mod kernel;
mod launch;
pub mod memory;
mod node;
mod on_quantized;
mod once;
mod pack;
mod param;

pub use call::{Failure, failure};
pub use callee::callee;
pub use geometry::ExecuteFn;
pub use kernel::{FinalizedKernel, accept, finalize};
pub use memory::{Budget, Buffer, Limit, OutOfMemory, PackedBytes, SharedBytes};
pub use node::{Machine, NodeDesc, PlacedNode, Refusal, infer};
pub use on_quantized::{Conversion, Converted};
pub use once::{Once, once};
pub use pack::{ConstantId, Job, PackCache, PackOf, PackStore, PackedFrom, Source};
pub use param::{ParamSetting, TensorSetting};
