//! The contract between the UDO runtime and operator packages.
//!
//! A package describes operators ([`Op`], [`OpSchema`]) and computes them on cores ([`Kernel`], [`GpuKernel`], plain
//! functions through [`dsp_kernel!`]). There are three phases: *describe* does not see data, *finalize* may allocate,
//! and *execute* may not.
//!
//! | an author writes | which gets | and provides |
//! |---|---|---|
//! | [`Op`] | [`InferCx`] | ports and parameters; type and shape of each output |
//! | [`Kernel`] | [`AcceptCx`], [`FinalizeCx`]; then [`Io`] in each call | whether it accepts a node; its state, packed
//! constants and needs; the results |
//! | [`GpuKernel`] | [`FinalizeCx`]; [`Buffers`] per [`WorkItem`] | OpenCL C and its [`Launch`]es; the same as a Rust function |
//! | a function for [`dsp_kernel!`] | [`QuantMut`], [`Quant`], parameters, [`Scratch`] | the results as quantized values |
//! | [`export_package!`] | a [`PackageV1`] of [`OpDef`]s and [`KernelDef`]s | the contents of the library |
//!
//! Each of them has an example. Suggested order of reading:
//!
//! 1. **Operators**: [`Op`], its [`OpSchema`] of [`Port`]s and [`Param`]s, and [`InferCx`] for shape inference
//!    ([`Shape`], [`Dim`]).
//! 2. **A first kernel**: [`Kernel`], whose `finalize` has a [`FinalizeCx`] and whose `execute` has an [`Io`] of [`Inputs`] and [`Outputs`];
//!    [`KernelDef`] ties it to an operator and a [`Core`], by rules for its ports ([`input`], [`output`], [`types`]).
//! 3. **Errors**: [`Error`] before a run, with a message; [`ExecError`] during it, without the heap.
//! 4. **Memory**: [`Workspace`] and [`Scratch`], [`Needs`] and [`Geometry`], prepacked constants ([`Packed`]), outputs
//!    in place of inputs ([`InPlace`]).
//! 5. **Elements**: [`DType`] and [`Element`], encodings of quantized values ([`Encoding`], [`AxisEncoding`]).
//! 6. **More than one core**: [`GpuKernel`], its [`Launch`]es and [`Buffers`]; [`dsp_kernel!`] with [`Quant`] and [`QuantMut`].
//! 7. **Performance**: threads ([`Parallel`]), fused epilogues ([`AcceptCx`], [`EpilogueOp`]), cost classes ([`Cost`]),
//!    [`Facts`] that passes use.
//! 8. **Libraries**: [`export_package!`], and the trap for heap use in execute ([`GuardAlloc`]).
//!
//! `docs/write-a-package.md` in the SDK builds a package step by step. [`abi`] holds the structures that cross between
//! host and package, [`export`] the code compiled into each library around an author's code, and [`guard`] the trap for
//! heap calls. Authors of ordinary kernels do not need these three and do not write unsafe code.

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
    Quants, QuantsMut, Strings, Texts, TypedTensor, only_the_last_is_repeated,
};
pub use dtype::{DType, TypeSet, types};
pub use element::{Bf16, Bits, Bool, Element, F16, bytes_of, bytes_of_mut};
pub use encoding::{AxisEncoding, Encoding, Encodings};
pub use error::{Error, ExecError, Status};
pub use gpu::{GpuKernel, KernelInfo, Launch, WorkItemFn};
pub use guard::GuardAlloc;
pub use kernel::{
    Arithmetic, Cost, Kernel, Needs, PortTypes, Side, Wanted, any_input, any_output, input,
    input_like, output, output_like,
};
pub use schema::{Layout, Op, ParamKind, Quantization};
pub use shape::{Dim, MAX_RANK, Shape};
pub use tensor::TensorDesc;
