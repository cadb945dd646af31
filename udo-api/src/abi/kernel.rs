//! What crosses of a kernel: its functions, what it takes on its ports.

use std::ffi::c_void;

use super::execute::{ExecArgs, NeededBytes, NeedsArgs};
use super::finalize::{AcceptArgs, FinalizeArgs, Finalized};
use super::gpu::GpuTable;
use crate::core::Core;
use crate::dtype::TypeSet;
use crate::span::{RawStr, Slice, StaticPtr};

abi_struct! {
    /// What a kernel takes on one port. On ports without a rule it takes what the schema takes, in the layout of the
    /// operator, with fixed dimensions, no rows that lie apart, and no encoding per axis.
    #[derive(Clone, Copy)]
    pub struct PortRule {
        pub(crate) side: u16,
        pub(crate) port: u16,
        pub(crate) types: TypeSet,
        pub(crate) same_as: u32,
        pub(crate) layout: u32,
        pub(crate) accepts: u32,
        pub(crate) reserved: [u32; 3],
    }
}

abi_struct! {
    /// An output that may take the place of an input.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InPlace {
        /// The input.
        pub input: u16,
        /// The output.
        pub output: u16,
    }
}

abi_struct! {
    /// An entry of a package's kernel table.
    #[derive(Clone, Copy, Debug)]
    pub struct KernelDef {
        pub(crate) op: RawStr,
        pub(crate) domain: RawStr,
        pub(crate) core: Core,
        pub(crate) cost: u32,
        pub(crate) ports: Slice<PortRule>,
        pub(crate) in_place: Slice<InPlace>,
        pub(crate) vtable: StaticPtr<KernelVTable>,
        pub(crate) reserved: [u64; 4],
    }
}

abi_struct! {
    /// The functions of one kernel.
    #[derive(Clone, Copy, Debug)]
    pub struct KernelVTable {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// `[finalize-time]` Makes the kernel; on success `out.state` is the caller's to free.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub finalize: unsafe extern "C" fn(args: *const FinalizeArgs, out: *mut Finalized) -> u32,
        /// `[execute-time, thread-safe, heap-free]` Runs the kernel once.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub execute: unsafe extern "C" fn(args: *const ExecArgs) -> u32,
        /// `[finalize-time]` Frees what finalize made; called once, when no execute is running.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub free: unsafe extern "C" fn(state: *mut c_void),
        /// What a GPU kernel has beyond the others; null for all others.
        pub gpu: StaticPtr<GpuTable>,
        /// `[finalize-time, thread-safe]` Writes how many leading steps of an epilogue the kernel does for the node,
        /// or refuses the node; null: none.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub accept: Option<unsafe extern "C" fn(args: *const AcceptArgs, steps: *mut u32) -> u32>,
        /// `[finalize-time, thread-safe]` Writes what execute needs for inputs of these extents, which is no more than for
        /// larger ones; null: what finalize said.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub needs:
            Option<unsafe extern "C" fn(args: *const NeedsArgs, needs: *mut NeededBytes) -> u32>,
        /// `[execute-time, thread-safe, heap-free]` Fills the geometry for the extents of the inputs, whose elements it must
        /// not touch; called before the first execute and when an extent changes. Null where `needs` asks for none.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub prepare: Option<unsafe extern "C" fn(args: *const ExecArgs) -> u32>,
        /// Zero.
        pub reserved_words: [u64; 1],
    }
}
