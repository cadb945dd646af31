//! Structures of placement and finalize.

use std::ffi::c_void;

use super::execute::{ParallelTable, Workspace};
use super::node::{ErrorSink, NodeArgs};
use crate::core::Core;
use crate::span::{RawStr, Span};
use crate::tensor::TensorDesc;

abi_struct! {
    /// One step of an epilogue.
    #[derive(Clone, Copy, Debug)]
    pub struct EpilogueStep {
        pub(crate) kind: u32,
        pub(crate) input: u32,
        pub(crate) axis: u32,
        pub(crate) function: u32,
        pub(crate) numbers: [f64; 2],
        pub(crate) output: TensorDesc,
        pub(crate) reserved: [u64; 5],
    }
}

abi_struct! {
    /// The arguments of `accept`.
    #[derive(Debug)]
    pub struct AcceptArgs {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The node. The inputs of all steps follow those of the operator; omitted inputs are absent.
        pub node: NodeArgs,
        /// `node.output_count` descriptions, before any step.
        pub outputs: *const TensorDesc,
        /// The core that the kernel would run on.
        pub core: Core,
        /// The number of steps.
        pub epilogue_count: u32,
        /// `epilogue_count` steps, in order.
        pub epilogue: *const EpilogueStep,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// A source of a packed constant.
    #[derive(Debug)]
    pub struct PackSource {
        /// Type, shape and encoding.
        pub desc: TensorDesc,
        /// The elements, aligned for their type.
        pub data: Span,
    }
}

abi_struct! {
    /// The arguments of a [`PackFn`].
    #[derive(Debug)]
    pub struct PackArgs {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// [`PackRequest::body`].
        pub body: *const c_void,
        /// `recipe_len` numbers from the request.
        pub recipe: *const u64,
        /// The length of the recipe.
        pub recipe_len: usize,
        /// `source_count` constants, in the order of the request's inputs.
        pub sources: *const PackSource,
        /// The number of constants.
        pub source_count: usize,
        /// Zeroed bytes to fill, aligned to 64.
        pub target: *mut u8,
        /// The number of bytes to fill.
        pub target_bytes: usize,
        /// The sink for error messages.
        pub errors: *const ErrorSink,
        /// The host's threads; null if they are in use.
        pub parallel: *const ParallelTable,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

/// `[finalize-time, thread-safe]` Fills a packed constant from its sources and its recipe only.
// SAFETY: only a type; callers follow the description above.
pub type PackFn = unsafe extern "C" fn(args: *const PackArgs) -> u32;

abi_struct! {
    /// A packed constant that a kernel requests in finalize.
    #[derive(Clone, Copy, Debug)]
    pub struct PackRequest {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The indices of `input_count` constant inputs.
        pub inputs: *const u32,
        /// The number of inputs.
        pub input_count: usize,
        /// `recipe_len` numbers that, with the sources, determine every byte.
        pub recipe: *const u64,
        /// The length of the recipe.
        pub recipe_len: usize,
        /// The size of the packed constant in bytes.
        pub bytes: usize,
        /// Fills it after finalize has returned, on any thread.
        pub fill: Option<PackFn>,
        /// Static data to pass to `fill`.
        pub body: *const c_void,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

/// Values of [`Tie::kind`].
pub mod ties {
    /// The output has the input's elements, in their order, under another shape or the same.
    pub const SAME: u32 = 1;
    /// The output is a part of the input.
    pub const OUTPUT_IN_INPUT: u32 = 2;
    /// The input is a part of the output.
    pub const INPUT_IN_OUTPUT: u32 = 3;
}

abi_struct! {
    /// A declaration that an input and an output hold the same elements, so that the host may let them share memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tie {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// See [`ties`].
        pub kind: u32,
        /// The input.
        pub input: u32,
        /// The output.
        pub output: u32,
        /// The axis that the part is cut along; the part has the whole of all other axes.
        pub axis: u32,
        /// Zero.
        pub reserved: u32,
        /// The start of the part on that axis.
        pub offset: u64,
        /// Zero.
        pub reserved_words: [u64; 2],
    }
}

/// Values of [`Work::arithmetic`].
pub mod arithmetic {
    /// 32-bit floating point.
    pub const F32: u32 = 1;
    /// 64-bit floating point.
    pub const F64: u32 = 2;
    /// Products of 8-bit integers with 32-bit sums.
    pub const INT8: u32 = 3;
    /// Products of bf16 numbers with 32-bit sums.
    pub const BF16: u32 = 4;
}

/// Bits of [`HostTable::fast_math`].
pub mod fast_math {
    /// Factors of 32-bit products may be rounded to bf16.
    pub const BF16: u32 = 1;
}

abi_struct! {
    /// The work of one kernel call, to compare its time with the machine's limits.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Work {
        /// The size of this structure in the creator's version.
        pub(crate) size: u32,
        /// See [`arithmetic`].
        pub(crate) arithmetic: u32,
        pub(crate) operations: u64,
        pub(crate) bytes: u64,
        pub(crate) method: RawStr,
        pub(crate) reserved_words: [u64; 2],
    }
}

abi_struct! {
    /// The host's functions for a kernel in finalize.
    #[derive(Debug)]
    pub struct HostTable {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// The maximum number of threads of a call.
        pub threads: u32,
        /// The instruction set of the host's own kernels: the code of an [`Isa`](crate::Isa).
        pub isa: u32,
        /// The precision that the user allows kernels to trade for speed: see [`fast_math`].
        pub fast_math: u32,
        /// The context to pass to every function.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Requests a packed constant; writes its index among the kernel's to `index`.
        // SAFETY: only a type; callers follow the description above.
        pub pack: unsafe extern "C" fn(
            ctx: *mut c_void,
            request: *const PackRequest,
            index: *mut u32,
        ) -> u32,
        /// `[finalize-time]` Declares that execute reads constant input `input` although it is packed.
        // SAFETY: only a type; callers follow the description above.
        pub keep: unsafe extern "C" fn(ctx: *mut c_void, input: u32) -> u32,
        /// The size of the core's fast memory in bytes; 0 without one.
        pub fast_memory_bytes: usize,
        /// `[finalize-time]` Declares that an input and an output hold the same elements. A kernel that ties all of its
        /// outputs may not be called at all.
        // SAFETY: only a type; callers follow the description above.
        pub tie: unsafe extern "C" fn(ctx: *mut c_void, tie: *const Tie) -> u32,
        /// `[finalize-time]` Declares the work of a call, at the bounds of bounded dimensions; null if the host does
        /// not ask.
        // SAFETY: only a type; callers follow the description above.
        pub work: Option<unsafe extern "C" fn(ctx: *mut c_void, work: *const Work) -> u32>,
        /// The cost of a byte of packed constants in multiply-adds of a run, for kernels with a choice of layouts; 0 if
        /// memory is free.
        pub memory_price: u32,
        /// Zero.
        pub reserved: u32,
    }
}

abi_struct! {
    /// The arguments of finalize.
    #[derive(Debug)]
    pub struct FinalizeArgs {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The node.
        pub node: NodeArgs,
        /// `node.output_count` descriptions.
        pub outputs: *const TensorDesc,
        /// The core that the kernel will run on.
        pub core: Core,
        /// The number of epilogue steps that the kernel accepted; their inputs follow those of the operator.
        pub epilogue_count: u32,
        /// The host's functions.
        pub host: *const HostTable,
        /// `epilogue_count` steps, in order. `outputs` describes the first output after them.
        pub epilogue: *const EpilogueStep,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

abi_struct! {
    /// The result of finalize.
    #[derive(Debug)]
    pub struct Finalized {
        /// The kernel's state, to pass to execute and, once, to free.
        pub state: *mut c_void,
        /// The scratch that execute needs.
        pub workspace: Workspace,
        /// Zero.
        pub reserved: [u64; 4],
    }
}
