//! What crosses in calls of kernels.

use std::ffi::c_void;

use super::node::ErrorSink;
use crate::dtype::DType;
use crate::encoding::{AxisEncoding, Encoding};
use crate::guard::GuardCell;
use crate::span::Span;
use crate::tensor::TensorDesc;

abi_struct! {
    /// The scratch of one call: bytes, and how they are aligned.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Workspace {
        pub(crate) bytes: usize,
        pub(crate) flags: u64,
    }
}

abi_struct! {
    /// The arguments of [`KernelVTable::needs`](super::KernelVTable::needs).
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
    /// No other tensor of the call lies between the rows.
    pub const ALONE: u8 = 16;
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

    /// The same tensor, between whose rows no other tensor of the call lies.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        if !self.is_dense() {
            self.flags |= arg_flags::ALONE;
        }
        self
    }

    /// The same tensor as one half of an in-place pair with port `other` of the other side.
    #[must_use]
    pub const fn paired_with(mut self, other: u16) -> Self {
        self.in_place = other + 1;
        self.flags |= arg_flags::PAIRED;
        self
    }

    /// Its extents in this run.
    pub fn shape(&self) -> &[usize] {
        self.dims.get(..usize::from(self.rank)).unwrap_or(&[])
    }

    /// Elements from the first one to the last one, with what lies between the rows; none beyond memory.
    pub(crate) fn span(&self) -> Option<usize> {
        let cols = self.shape().last().copied().unwrap_or(1);
        let Some(rows) = self.len.checked_div(cols).filter(|_| !self.is_dense()) else {
            return Some(self.len);
        };
        rows.saturating_sub(1).checked_mul(self.row_stride)?.checked_add(if rows > 0 {
            cols
        } else {
            0
        })
    }

    /// Whether its rows lie behind each other.
    pub const fn is_dense(&self) -> bool {
        self.flags & arg_flags::PITCHED == 0
    }

    pub(crate) const fn is_paired(&self) -> bool {
        self.flags & arg_flags::PAIRED != 0
    }

    /// The type of its elements, if this version knows it.
    pub fn dtype(&self) -> Option<DType> {
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
            // SAFETY: only a type; the callee of `run` calls it with the `task_ctx` that came with it.
            task: unsafe extern "C" fn(task_ctx: *const c_void, index: usize),
            task_ctx: *const c_void,
        ),
        /// A word that any thread may turn from zero to something else while execute runs, by an atomic write: nobody wants the
        /// results then, so that calls which have not begun may be left out, and execute answers `CANCELLED`. Null where
        /// nobody does.
        pub stop: *const u32,
        /// Zero.
        pub reserved_words: [u64; 3],
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
