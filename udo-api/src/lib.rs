//! The contract between the UDO runtime and operator packages.
//!
//! A package describes operators ([`Op`], [`OpSchema`]), and computes them on cores ([`Kernel`],
//! [`GpuKernel`], plain functions through [`dsp_kernel!`]). Three moments keep apart what may
//! happen when: *describe* sees no data, *finalize* may allocate, *execute* may not.
//!
//! | an author writes | which gets | to say |
//! |---|---|---|
//! | [`Op`] | [`InferCx`] | ports and parameters; type and shape of each output |
//! | [`Kernel`] | [`AcceptCx`], [`FinalizeCx`]; then [`Io`] in each call | whether it takes a node; what it keeps, packs and needs; the result |
//! | [`GpuKernel`] | [`FinalizeCx`]; [`Buffers`] per [`WorkItem`] | OpenCL C and its [`Launch`]es; the same as a Rust function |
//! | a function for [`dsp_kernel!`] | [`QuantMut`], [`Quant`], parameters, [`Scratch`] | the result, in quantized values |
//! | [`export_package!`] | a [`PackageV1`] of [`OpDef`]s and [`KernelDef`]s | what the library holds |
//!
//! Each of them has an example. The structures that cross between host and package lie in [`abi`], what is
//! compiled into each library around an author's code in [`export`], and the trap for heap calls in [`guard`];
//! authors of ordinary kernels need none of the three and write no unsafe code.

#[macro_use]
mod layout;
pub mod abi;
mod author;
mod core;
mod dsp;
mod dtype;
mod element;
mod encoding;
mod error;
pub mod export;
mod gpu;
pub mod guard;
mod kernel;
mod schema;
mod shape;
mod span;
mod tensor;

pub use crate::core::{Core, CoreKind, FastMath, Isa};
pub use abi::{
    CoreTypes, EpilogueStep, Facts, GpuArg, InPlace, KernelDef, LibraryRef, OpDef, OpSchema,
    PackageV1, Param, Port, PortRule, SDK_VERSION, Value, ValueKind, Work, Workspace,
};
pub use author::{
    AcceptCx, Activation, Buffers, EpilogueOp, Extents, FillFn, FinalizeCx, Geometry, InferCx,
    InputShapes, Inputs, Io, Node, Outputs, Packed, PackedConstants, Pair, Parallel, ParamTensor,
    Rows, RowsMut, Scratch, Sources, WorkItem, resolve_axis,
};
pub use dsp::{
    DspCall, DspCheck, DspKept, DspParam, DspPort, DspScalar, Quant, QuantMut, QuantizedType,
    Quants, QuantsMut, Texts, TypedTensor, only_the_last_is_repeated,
};
pub use dtype::{DType, TypeSet, types};
pub use element::{Bf16, Bits, Bool, Element, F16, bytes_of, bytes_of_mut};
pub use encoding::{AxisEncoding, Encoding, Encodings};
pub use error::{Error, ExecError, Status};
pub use gpu::{GpuKernel, KernelInfo, Launch, WorkItemFn};
pub use guard::GuardAlloc;
pub use kernel::{
    Arithmetic, Cost, Kernel, Needs, Side, Wanted, any_input, any_output, input, input_like,
    output, output_like,
};
pub use schema::{Layout, Op, ParamKind, Quantization};
pub use shape::{Dim, MAX_RANK, Shape};
pub use tensor::TensorDesc;
