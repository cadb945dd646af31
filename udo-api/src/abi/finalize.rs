//! What crosses while kernels are placed and finalized.

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
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The node, with the inputs of all steps behind all that the operator has; those that the node leaves out are absent.
        pub node: NodeArgs,
        /// `node.output_count` descriptions, without any step.
        pub outputs: *const TensorDesc,
        /// The core that the kernel would run on.
        pub core: Core,
        /// How many steps there are.
        pub epilogue_count: u32,
        /// `epilogue_count` steps, in order.
        pub epilogue: *const EpilogueStep,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// A constant that a packed one is made of.
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
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// [`PackRequest::body`].
        pub body: *const c_void,
        /// `recipe_len` numbers, those of the request.
        pub recipe: *const u64,
        /// How many numbers the recipe has.
        pub recipe_len: usize,
        /// `source_count` constants, in the order in which the request names its inputs.
        pub sources: *const PackSource,
        /// How many constants there are.
        pub source_count: usize,
        /// Zeroed bytes to fill, aligned to 64.
        pub target: *mut u8,
        /// How many bytes there are to fill.
        pub target_bytes: usize,
        /// Where errors go.
        pub errors: *const ErrorSink,
        /// The host's threads; null where others use them.
        pub parallel: *const ParallelTable,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

/// `[finalize-time, thread-safe]` Makes a packed constant out of its sources and its recipe, and of nothing else.
// SAFETY: only a type; who calls through it keeps to what is written above.
pub type PackFn = unsafe extern "C" fn(args: *const PackArgs) -> u32;

abi_struct! {
    /// A packed constant that a kernel asks for while it is finalized.
    #[derive(Clone, Copy, Debug)]
    pub struct PackRequest {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// `input_count` numbers of constant inputs.
        pub inputs: *const u32,
        /// How many inputs there are.
        pub input_count: usize,
        /// `recipe_len` numbers that, with the sources, decide every byte.
        pub recipe: *const u64,
        /// How many numbers the recipe has.
        pub recipe_len: usize,
        /// Bytes of the packed constant.
        pub bytes: usize,
        /// Fills it, after finalize has returned, on any thread.
        pub fill: Option<PackFn>,
        /// Static data that `fill` gets back.
        pub body: *const c_void,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

/// Values of [`Tie::kind`].
pub mod ties {
    /// The output is the input's elements, in their order, under another shape or the same.
    pub const SAME: u32 = 1;
    /// The output is a part of the input.
    pub const OUTPUT_IN_INPUT: u32 = 2;
    /// The input is a part of the output.
    pub const INPUT_IN_OUTPUT: u32 = 3;
}

abi_struct! {
    /// What a kernel says of an input and an output that hold the same elements, so that the host may have them share
    /// memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Tie {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// See [`ties`].
        pub kind: u32,
        /// The input.
        pub input: u32,
        /// The output.
        pub output: u32,
        /// The axis along which a part lies in the whole; it has all of the others.
        pub axis: u32,
        /// Zero.
        pub reserved: u32,
        /// Where the part starts on that axis.
        pub offset: u64,
        /// Zero.
        pub reserved_words: [u64; 2],
    }
}

/// Values of [`Work::arithmetic`].
pub mod arithmetic {
    /// Numbers of 32 bits.
    pub const F32: u32 = 1;
    /// Numbers of 64 bits.
    pub const F64: u32 = 2;
    /// Products of 8-bit integers, added up in 32 bits.
    pub const INT8: u32 = 3;
    /// Products of numbers of 16 bits with an exponent of 8, added up in 32 bits.
    pub const BF16: u32 = 4;
}

/// Bits of [`HostTable::fast_math`].
pub mod fast_math {
    /// Factors of products of 32-bit numbers may be rounded to bf16.
    pub const BF16: u32 = 1;
}

abi_struct! {
    /// What one call of a kernel takes, for whoever compares its time with what the machine can do.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Work {
        /// Bytes of this structure in the version of who made it.
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
    /// What the host does for a kernel that is being finalized.
    #[derive(Debug)]
    pub struct HostTable {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// How many threads work on a call at most.
        pub threads: u32,
        /// The instruction set that kernels of the host's own use: the code of an [`Isa`](crate::Isa).
        pub isa: u32,
        /// What kernels may do less exactly, as the user asked for it: see [`fast_math`].
        pub fast_math: u32,
        /// Handed back to every function.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Notes a packed constant; writes its number among the kernel's to `index`.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub pack: unsafe extern "C" fn(
            ctx: *mut c_void,
            request: *const PackRequest,
            index: *mut u32,
        ) -> u32,
        /// `[finalize-time]` Notes that execute reads constant input `input` although it is packed.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub keep: unsafe extern "C" fn(ctx: *mut c_void, input: u32) -> u32,
        /// Bytes of the core's own fast memory; 0 where it has none.
        pub fast_memory_bytes: usize,
        /// `[finalize-time]` Notes that an input and an output hold the same elements. A kernel that ties all of its
        /// outputs may not be called at all.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub tie: unsafe extern "C" fn(ctx: *mut c_void, tie: *const Tie) -> u32,
        /// `[finalize-time]` Notes what a call takes, at the bounds of extents that are bounded; null where the host does not
        /// ask.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub work: Option<unsafe extern "C" fn(ctx: *mut c_void, work: *const Work) -> u32>,
        /// What a byte of packed constants costs, in multiply-adds of a run, where a kernel has the choice between forms of
        /// them; 0 where memory is free.
        pub memory_price: u32,
        /// Zero.
        pub reserved: u32,
    }
}

abi_struct! {
    /// The arguments of finalize.
    #[derive(Debug)]
    pub struct FinalizeArgs {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The node.
        pub node: NodeArgs,
        /// `node.output_count` descriptions.
        pub outputs: *const TensorDesc,
        /// The core that the kernel will run on.
        pub core: Core,
        /// How many steps of the epilogue the kernel took; their inputs are behind all that the operator has.
        pub epilogue_count: u32,
        /// What the host does for the kernel.
        pub host: *const HostTable,
        /// `epilogue_count` steps, in order. `outputs` says what the first output is after them.
        pub epilogue: *const EpilogueStep,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

abi_struct! {
    /// What finalize made.
    #[derive(Debug)]
    pub struct Finalized {
        /// The kernel, to be passed to execute and, once, to free.
        pub state: *mut c_void,
        /// The scratch that execute needs.
        pub workspace: Workspace,
        /// Zero.
        pub reserved: [u64; 4],
    }
}
