//! The binary contract: every structure that crosses between host and package.
//!
//! Everything here is `repr(C)`, reaches into static memory of libraries that are never
//! unloaded, and may be written by a C package as well. Authors of packages do not use this
//! module; the traits above it do.

#[macro_use]
mod layout;
mod block;
mod bytes;
mod door;
mod epilogue;
mod export;
mod finalize;
mod gpu;
mod io;
mod manifest;
mod node;
mod pack;
mod package;
mod param;
mod shim;
mod span;
mod tables;
mod threads;
mod version;
#[cfg_attr(udo_unguarded, path = "bare.rs")]
mod watch;
mod work;

#[doc(hidden)]
pub use abi_stable;

pub use block::{Block, copy_block, read_block};
pub use bytes::{bytes_of, bytes_of_mut};
pub use door::{DoorError, PackageRoot, PackageRoot_Ref, open_rust_door};
pub use epilogue::{AcceptArgs, Activation, EpilogueOp, EpilogueStep};
pub use finalize::{AcceptCx, FinalizeCx};
pub use gpu::{GpuArg, GpuArgKind, GpuLaunch, GpuSink, GpuTable};
pub use io::{Extents, Geometry, InputShapes, Inputs, Io, Outputs, Pair, Rows, RowsMut, Scratch};
pub use layout::{Field, Layout};
pub use manifest::{MANIFEST_SECTION, PanicStrategy, manifest_bytes, manifest_len};
pub use node::{InferCx, Node, resolve_axis};
pub use pack::{FillFn, Packed, PackedConstants, Sources};
pub use package::{C_QUERY_SYMBOL, LibraryRef, PackageV1, QueryFn};
pub use param::{ParamTensor, ParamValue, param_kinds};
pub use shim::{gpu_vtable, infer_shim, kernel_vtable};
pub use span::{RawStr, Slice, Span, StaticPtr, Table, Value, ValueKind};
pub use tables::{
    ErrorSink, ExecArgs, FinalizeArgs, Finalized, HostTable, InferArgs, KernelVTable, NeededBytes,
    NeedsArgs, NodeArgs, PackArgs, PackFn, PackRequest, PackSource, ParallelTable, TensorArg, Tie,
    arg_flags, ties,
};
pub use threads::Parallel;
pub use version::{ABI_VERSION, AbiVersion, NEEDS};
pub use work::{Buffers, WorkItem};

/// The layout of each structure of the ABI, for the fingerprint and the snapshot test.
pub const LAYOUTS: &[Layout] = &[
    RawStr::LAYOUT,
    AbiVersion::LAYOUT,
    <Slice<u8>>::LAYOUT,
    <Table<u8>>::LAYOUT,
    Span::LAYOUT,
    Value::LAYOUT,
    crate::core::Core::LAYOUT,
    crate::shape::Shape::LAYOUT,
    crate::encoding::Encoding::LAYOUT,
    crate::encoding::AxisEncoding::LAYOUT,
    crate::shape::TensorDesc::LAYOUT,
    crate::schema::Port::LAYOUT,
    crate::schema::Param::LAYOUT,
    crate::schema::CoreTypes::LAYOUT,
    crate::schema::OpSchema::LAYOUT,
    crate::schema::OpDef::LAYOUT,
    crate::kernel::PortRule::LAYOUT,
    crate::kernel::InPlace::LAYOUT,
    crate::kernel::Workspace::LAYOUT,
    crate::kernel::KernelDef::LAYOUT,
    crate::guard::GuardReport::LAYOUT,
    ErrorSink::LAYOUT,
    ParamValue::LAYOUT,
    NodeArgs::LAYOUT,
    InferArgs::LAYOUT,
    PackSource::LAYOUT,
    PackArgs::LAYOUT,
    PackRequest::LAYOUT,
    Tie::LAYOUT,
    HostTable::LAYOUT,
    EpilogueStep::LAYOUT,
    AcceptArgs::LAYOUT,
    FinalizeArgs::LAYOUT,
    Finalized::LAYOUT,
    NeedsArgs::LAYOUT,
    NeededBytes::LAYOUT,
    TensorArg::LAYOUT,
    ParallelTable::LAYOUT,
    ExecArgs::LAYOUT,
    GpuArg::LAYOUT,
    GpuLaunch::LAYOUT,
    GpuSink::LAYOUT,
    GpuTable::LAYOUT,
    KernelVTable::LAYOUT,
    LibraryRef::LAYOUT,
    PackageV1::LAYOUT,
];

/// One number over all of [`LAYOUTS`]; libraries carry it. What numbers mean is not part of it: those of element
/// types, statuses, cores and flags are only ever added to, and a package that uses a new one says so by its version.
pub const FINGERPRINT: u64 = layout::fingerprint(LAYOUTS);

// A tensor is two cache lines, and the words of a call fit in as many.
const _: () = assert!(size_of::<ExecArgs>() <= 128);
const _: () = assert!(size_of::<TensorArg>() == 128);
const _: () = assert!(size_of::<usize>() == 8, "the ABI is defined for 64-bit targets");
