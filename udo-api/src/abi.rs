//! The binary contract: every structure that crosses between host and package.
//!
//! Everything here is `repr(C)`, is reachable from static memory of libraries that are never
//! unloaded, and may also be written by a C package. Package authors do not use this module:
//! contexts and views read these structures, and the builders of schemas and tables fill them. The
//! module contains element types, shapes and statuses, but no author traits.

mod block;
mod execute;
mod finalize;
mod fingerprint;
mod gpu;
mod kernel;
mod node;
mod package;
mod report;
mod schema;
mod value;
mod version;

pub use crate::layout::{Field, Layout};
pub use crate::span::{RawStr, Slice, Span, StaticPtr, Table};
pub use block::{Block, copy_block, read_block};
pub use execute::{
    ExecArgs, NeededBytes, NeedsArgs, ParallelTable, TensorArg, Workspace, arg_flags,
};
pub use finalize::{
    AcceptArgs, EpilogueStep, FinalizeArgs, Finalized, HostTable, PackArgs, PackFn, PackRequest,
    PackSource, Tie, Work, arithmetic, fast_math, ties,
};
pub use fingerprint::{FINGERPRINT, LAYOUTS};
pub use gpu::{GpuArg, GpuArgKind, GpuLaunch, GpuSink, GpuTable};
pub use kernel::{InPlace, KernelDef, KernelVTable, PortRule};
pub use node::{ErrorSink, InferArgs, NodeArgs, ParamValue, param_kinds};
pub use package::{
    C_QUERY_SYMBOL, LibraryRef, MANIFEST_SECTION, PackageV1, PanicStrategy, QueryFn,
};
pub(crate) use report::report;
pub use schema::{CoreTypes, Facts, OpDef, OpSchema, Param, Port};
pub use value::{Value, ValueKind};
pub use version::{ABI_VERSION, AbiVersion, NEEDS, SDK_VERSION};
