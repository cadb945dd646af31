//! The tables that packages hand out and the argument blocks that the host hands in.

use std::ffi::c_void;

use super::{AcceptArgs, EpilogueStep, GpuTable, ParamValue, Span, StaticPtr};
use crate::guard::GuardCell;
use crate::kernel::Workspace;
use crate::{AxisEncoding, Core, DType, Encoding, TensorDesc};

abi_struct! {
    /// Where a callee writes the message of an error.
    #[derive(Debug)]
    pub struct ErrorSink {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// Handed back to `write`.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Appends UTF-8 text.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub write: unsafe extern "C" fn(ctx: *mut c_void, text: *const u8, bytes: usize),
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// A node as describe and finalize see it.
    #[derive(Debug)]
    pub struct NodeArgs {
        /// `input_count` descriptions.
        pub inputs: *const TensorDesc,
        /// `input_count` spans; null where an input is not constant.
        pub constants: *const Span,
        /// `param_count` values.
        pub params: *const ParamValue,
        /// The node's inputs, absent ones included.
        pub input_count: u32,
        /// The node's outputs, absent ones included.
        pub output_count: u32,
        /// The schema's parameters.
        pub param_count: u32,
        /// The operator-set version that the node comes from; 0 where there is none.
        pub opset: u32,
        /// Where errors go.
        pub errors: *const ErrorSink,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The arguments of shape inference.
    #[derive(Debug)]
    pub struct InferArgs {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The node.
        pub node: NodeArgs,
        /// `node.output_count` descriptions to fill in.
        pub outputs: *mut TensorDesc,
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
        /// Zero.
        pub reserved_words: [u64; 4],
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
        /// Zero.
        pub reserved: u32,
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
        /// Zero.
        pub reserved_words: [u64; 1],
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

abi_struct! {
    /// The arguments of [`KernelVTable::needs`].
    #[derive(Debug)]
    pub struct NeedsArgs {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// The node's inputs, absent ones and those of its epilogue included.
        pub input_count: u32,
        /// What finalize made.
        pub state: *const c_void,
        /// `input_count` inputs without elements; bounded ones at their bounds.
        pub inputs: *const TensorArg,
        /// Where errors go.
        pub errors: *const ErrorSink,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// What execute needs for inputs of some extents.
    #[derive(Clone, Copy, Debug)]
    pub struct NeededBytes {
        /// The scratch, in place of what finalize said.
        pub scratch: Workspace,
        /// Bytes that prepare fills.
        pub geometry_bytes: usize,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

/// Bits of [`TensorArg::flags`]; without any, a tensor is one dense run of elements of its own.
pub mod arg_flags {
    /// The node leaves the port out.
    pub const ABSENT: u8 = 1;
    /// An output past the 64th has been handed out in this call.
    pub const TAKEN: u8 = 2;
    /// The rows lie further apart than they are long.
    pub const PITCHED: u8 = 4;
    /// The tensor is one half of an in-place pair.
    pub const PAIRED: u8 = 8;
}

abi_struct! {
    /// One tensor of a call.
    #[derive(Debug)]
    pub struct TensorArg {
        /// The first element, aligned for its type.
        pub data: *mut u8,
        /// Elements in this run; the product of `dims`.
        pub len: usize,
        /// The most elements that `data` has room for; what a bounded output may grow to.
        pub capacity: usize,
        /// Elements from one row (last axis) to the next; equal to the last extent where dense.
        pub row_stride: usize,
        /// The element type's code.
        pub dtype: u8,
        /// Dimensions in use.
        pub rank: u8,
        /// See [`arg_flags`].
        pub flags: u8,
        /// A bit per dimension that the kernel may shrink.
        pub bounded: u8,
        /// 1 + the other port of the pair, where planned in place: an output's input or the reverse.
        pub in_place: u16,
        /// Whether `encoding` means something.
        pub has_encoding: u16,
        /// The encoding.
        pub encoding: Encoding,
        /// The extents in this run.
        pub dims: [usize; 8],
        /// The encoding for each position of an axis, if the tensor has such.
        pub axis_encoding: Option<&'static AxisEncoding>,
        /// Zero.
        pub reserved_words: [u64; 1],
    }
}

impl TensorArg {
    /// A port that the node leaves out.
    pub const ABSENT: Self = Self {
        data: std::ptr::null_mut(),
        len: 0,
        capacity: 0,
        row_stride: 0,
        dtype: 0,
        rank: 0,
        flags: arg_flags::ABSENT,
        bounded: 0,
        in_place: 0,
        has_encoding: 0,
        encoding: Encoding { scale: 0.0, zero_point: 0 },
        dims: [0; 8],
        axis_encoding: None,
        reserved_words: [0; 1],
    };

    /// The tensor that `desc` describes, dense, at its bounds, with its elements at `data`.
    pub fn new(desc: &TensorDesc, data: *mut u8) -> Self {
        let Some(dtype) = desc.dtype() else { return Self::ABSENT };
        let shape = desc.shape();
        let mut dims = [0; 8];
        for (to, from) in dims.iter_mut().zip(shape) {
            *to = *from;
        }
        Self {
            data,
            len: desc.len(),
            capacity: desc.len(),
            row_stride: shape.last().copied().unwrap_or(1),
            dtype: dtype.code(),
            rank: u8::try_from(shape.len()).unwrap_or(0),
            flags: 0,
            bounded: desc.full_shape().bounded_axes(),
            has_encoding: u16::from(desc.encoding().is_some()),
            encoding: desc.encoding().unwrap_or(Self::ABSENT.encoding),
            dims,
            axis_encoding: desc.axis_encoding(),
            ..Self::ABSENT
        }
    }

    /// The same tensor with its rows `stride` elements apart.
    #[must_use]
    pub fn with_row_stride(mut self, stride: usize) -> Self {
        // A single row has no next one.
        let fits = |&cols: &usize| cols == stride || self.len <= cols;
        let is_dense = self.shape().last().is_none_or(fits);
        self.row_stride = stride;
        self.flags &= !arg_flags::PITCHED;
        self.flags |= if is_dense { 0 } else { arg_flags::PITCHED };
        self
    }

    /// The same tensor as one half of an in-place pair with port `other` of the other side.
    #[must_use]
    pub const fn paired_with(mut self, other: u16) -> Self {
        self.in_place = other + 1;
        self.flags |= arg_flags::PAIRED;
        self
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.dims.get(..usize::from(self.rank)).unwrap_or(&[])
    }

    pub(crate) const fn is_dense(&self) -> bool {
        self.flags & arg_flags::PITCHED == 0
    }

    pub(crate) const fn is_paired(&self) -> bool {
        self.flags & arg_flags::PAIRED != 0
    }

    pub(crate) fn dtype(&self) -> Option<DType> {
        DType::from_code(self.dtype)
    }
}

abi_struct! {
    /// The host's parallel-for.
    #[derive(Debug)]
    pub struct ParallelTable {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// How many threads work at once, the caller included.
        pub width: u32,
        /// Handed back to `run`.
        pub ctx: *const c_void,
        /// `[execute-time, heap-free]` Calls `task(task_ctx, i)` once for each i below `count`, on any
        /// thread, and returns when all are done.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub run: unsafe extern "C" fn(
            ctx: *const c_void,
            count: usize,
            // SAFETY: as above.
            task: unsafe extern "C" fn(task_ctx: *const c_void, index: usize),
            task_ctx: *const c_void,
        ),
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The arguments of execute: less than two cache lines.
    #[derive(Debug)]
    pub struct ExecArgs {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Inputs in `tensors`.
        pub input_count: u16,
        /// Outputs in `tensors`.
        pub output_count: u16,
        /// What finalize made.
        pub state: *const c_void,
        /// Inputs, then outputs.
        pub tensors: *mut TensorArg,
        /// `packed_count` packed constants.
        pub packed: *const Span,
        /// Scratch, aligned as declared.
        pub scratch: *mut u8,
        /// Bytes of scratch.
        pub scratch_bytes: usize,
        /// The calling thread's guard for the kernel's library, or null.
        pub guard: *mut GuardCell,
        /// The parallel-for, or null where there is one thread.
        pub parallel: *const ParallelTable,
        /// A bit for each of the first 64 outputs that a call must take: those that are there and not empty.
        pub untaken: u64,
        /// A bit for each of the first 64 outputs whose extents a call must say: those that are bounded.
        pub unsaid: u64,
        /// What `prepare` filled for these extents, aligned to 64; in a call of it, what it is to fill, zeroed at first.
        pub geometry: *mut u8,
        /// Bytes of geometry.
        pub geometry_bytes: usize,
        /// Packed constants in `packed`.
        pub packed_count: u16,
        /// Zero.
        pub reserved: [u16; 3],
    }
}

impl ExecArgs {
    /// What `untaken` and `unsaid` are for a call with these outputs.
    pub fn owed<'a>(outputs: impl IntoIterator<Item = &'a TensorArg>) -> [u64; 2] {
        outputs.into_iter().take(64).enumerate().fold([0; 2], |[untaken, unsaid], (port, arg)| {
            let is_there = arg.flags & arg_flags::ABSENT == 0;
            let untaken = untaken | u64::from(is_there && arg.capacity > 0) << port;
            [untaken, unsaid | u64::from(is_there && arg.bounded != 0) << port]
        })
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
        pub finalize: unsafe extern "C" fn(args: *const FinalizeArgs, out: *mut Finalized) -> u32,
        /// `[execute-time, thread-safe, heap-free]` Runs the kernel once.
        pub execute: unsafe extern "C" fn(args: *const ExecArgs) -> u32,
        /// `[finalize-time]` Frees what finalize made; called once, when no execute is running.
        pub free: unsafe extern "C" fn(state: *mut c_void),
        /// What a GPU kernel has beyond the others; null for all others.
        pub gpu: StaticPtr<GpuTable>,
        /// `[finalize-time, thread-safe]` Writes how many leading steps of an epilogue the kernel does for the node,
        /// or refuses the node; null: none.
        pub accept: Option<unsafe extern "C" fn(args: *const AcceptArgs, steps: *mut u32) -> u32>,
        /// `[finalize-time, thread-safe]` Writes what execute needs for inputs of these extents, which is no more than for
        /// larger ones; null: what finalize said.
        pub needs:
            Option<unsafe extern "C" fn(args: *const NeedsArgs, needs: *mut NeededBytes) -> u32>,
        /// `[execute-time, thread-safe, heap-free]` Fills the geometry for the extents of the inputs, whose elements it must
        /// not touch; called before the first execute and when an extent changes. Null where `needs` asks for none.
        pub prepare: Option<unsafe extern "C" fn(args: *const ExecArgs) -> u32>,
        /// Zero.
        pub reserved_words: [u64; 1],
    }
}
