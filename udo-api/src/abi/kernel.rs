//! Structures of a kernel: its functions and the rules of its ports.

use std::ffi::c_void;

use super::execute::{ExecArgs, NeededBytes, NeedsArgs};
use super::finalize::{AcceptArgs, FinalizeArgs, Finalized};
use super::gpu::GpuTable;
use crate::core::Core;
use crate::dtype::TypeSet;
use crate::span::{RawStr, Slice, StaticPtr};

abi_struct! {
    /// The rule of a kernel for one port. Ports without a rule accept the types of the schema, in the operator's
    /// layout, with fixed dimensions, contiguous rows, and without an encoding per axis.
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
    /// An output that may be written in place of an input.
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
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// `[finalize-time]` Creates the kernel; on success the caller must free `out.state`.
        // SAFETY: only a type; callers follow the description above.
        pub finalize: unsafe extern "C" fn(args: *const FinalizeArgs, out: *mut Finalized) -> u32,
        /// `[execute-time, thread-safe, heap-free]` Runs the kernel once.
        // SAFETY: only a type; callers follow the description above.
        pub execute: unsafe extern "C" fn(args: *const ExecArgs) -> u32,
        /// `[finalize-time]` Frees the state from finalize; called once, while no execute runs.
        // SAFETY: only a type; callers follow the description above.
        pub free: unsafe extern "C" fn(state: *mut c_void),
        /// The additional functions of a GPU kernel; null for others.
        pub gpu: StaticPtr<GpuTable>,
        /// `[finalize-time, thread-safe]` Writes how many leading steps of an epilogue the kernel performs for the
        /// node, or refuses the node; null accepts no steps.
        // SAFETY: only a type; callers follow the description above.
        pub accept: Option<unsafe extern "C" fn(args: *const AcceptArgs, steps: *mut u32) -> u32>,
        /// `[finalize-time, thread-safe]` Writes the memory of execute for inputs of these shapes, which must not
        /// exceed that for larger ones; null if finalize stated it.
        // SAFETY: only a type; callers follow the description above.
        pub needs:
            Option<unsafe extern "C" fn(args: *const NeedsArgs, needs: *mut NeededBytes) -> u32>,
        /// `[execute-time, thread-safe, heap-free]` Fills the geometry for the shapes of the inputs, whose elements it
        /// must not access; called before the first execute and when a dimension changes. Null if `needs` requests no
        /// geometry.
        // SAFETY: only a type; callers follow the description above.
        pub prepare: Option<unsafe extern "C" fn(args: *const ExecArgs) -> u32>,
        /// Zero.
        pub reserved_words: [u64; 1],
    }
}
