//! The contract between the UDO runtime and operator packages.
//!
//! A package describes operators ([`Op`], [`OpSchema`]), and computes them on cores ([`Kernel`],
//! [`GpuKernel`], plain functions through [`dsp_kernel!`]). Three moments keep apart what may
//! happen when: *describe* sees no data, *finalize* may allocate, *execute* may not.
//!
//! Everything that crosses between host and package lies in [`abi`]; authors of ordinary kernels
//! need none of it and write no unsafe code.

#[macro_use]
pub mod abi;
mod core;
mod dsp;
mod dtype;
mod encoding;
mod error;
mod gpu;
pub mod guard;
mod kernel;
mod schema;
mod shape;

pub use crate::core::{Core, CoreKind, Isa};
pub use abi::{
    AcceptCx, Activation, Buffers, EpilogueOp, EpilogueStep, Extents, FillFn, FinalizeCx, Geometry,
    GpuArg, InferCx, InputShapes, Inputs, Io, LibraryRef, Node, Outputs, PackageV1, Packed,
    PackedConstants, Pair, Parallel, ParamTensor, Rows, RowsMut, Scratch, Sources, Value,
    ValueKind, WorkItem, bytes_of, bytes_of_mut, resolve_axis,
};
pub use dsp::{
    Code, DspCall, DspCheck, DspKept, DspParam, DspPort, DspScalar, Quant, QuantMut, Quants,
    QuantsMut, Texts, TypedTensor, only_the_last_is_repeated,
};
pub use dtype::{Bf16, Bool, DType, Element, F16, TypeSet, types};
pub use encoding::{AxisEncoding, Encoding, Encodings};
pub use error::{Error, ExecError, Status};
pub use gpu::{GpuKernel, KernelInfo, Launch, WorkItemFn};
pub use guard::GuardAlloc;
pub use kernel::{
    Cost, InPlace, Kernel, KernelDef, Needs, PortRule, Side, Wanted, Workspace, any_input,
    any_output, input, input_like, output, output_like,
};
pub use schema::{
    CoreTypes, Facts, Layout, Op, OpDef, OpSchema, Param, ParamKind, Port, Quantization,
};
pub use shape::{Dim, MAX_RANK, Shape, TensorDesc};

/// The version of this crate, which libraries carry in their manifests.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");
