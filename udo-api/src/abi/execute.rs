//! Structures of kernel calls.

use std::ffi::c_void;

use super::node::ErrorSink;
use crate::dtype::DType;
use crate::encoding::{AxisEncoding, Encoding};
use crate::guard::GuardCell;
use crate::span::Span;
use crate::tensor::TensorDesc;

abi_struct! {
    /// The scratch of one call: size and alignment.
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
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// The number of the node's inputs, including absent ones and those of its epilogue.
        pub input_count: u32,
        /// The state from finalize.
        pub state: *const c_void,
        /// `input_count` inputs without elements; bounded dimensions are at their bounds.
        pub inputs: *const TensorArg,
        /// The sink for error messages.
        pub errors: *const ErrorSink,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The memory of execute for inputs of some shapes.
    #[derive(Clone, Copy, Debug)]
    pub struct NeededBytes {
        /// The scratch, which replaces the one from finalize.
        pub scratch: Workspace,
        /// The bytes that prepare fills.
        pub geometry_bytes: usize,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

/// Bits of [`TensorArg::flags`]; without any, a tensor is one dense run of elements in memory of its own.
pub mod arg_flags {
    /// The node leaves the port out.
    pub const ABSENT: u8 = 1;
    /// An output after the 64th was taken in this call.
    pub const TAKEN: u8 = 2;
    /// The rows are strided.
    pub const PITCHED: u8 = 4;
    /// The tensor is one side of an in-place pair.
    pub const PAIRED: u8 = 8;
    /// The gaps between the rows do not belong to other tensors of the call.
    pub const ALONE: u8 = 16;
}

abi_struct! {
    /// One tensor of a call.
    #[derive(Debug)]
    pub struct TensorArg {
        /// The first element, aligned for its type.
        pub data: *mut u8,
        /// The number of elements in this run; the product of `dims`.
        pub len: usize,
        /// The capacity of `data` in elements, which limits a bounded output.
        pub capacity: usize,
        /// The distance between rows (last axis) in elements; the length of a row if the tensor is dense.
        pub row_stride: usize,
        /// The element type's code.
        pub dtype: u8,
        /// The number of dimensions.
        pub rank: u8,
        /// See [`arg_flags`].
        pub flags: u8,
        /// A bit per dimension that the kernel may shrink.
        pub bounded: u8,
        /// 1 + the other port of the in-place pair; 0 without a pair.
        pub in_place: u16,
        /// Whether `encoding` is set.
        pub has_encoding: u16,
        /// The encoding.
        pub encoding: Encoding,
        /// The dimensions in this run.
        pub dims: [usize; 8],
        /// The encoding for each position of an axis, if the tensor has one.
        pub axis_encoding: Option<&'static AxisEncoding>,
        /// Zero.
        pub reserved_words: [u64; 1],
    }
}

impl TensorArg {
    /// An omitted port.
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

    /// Returns the dense tensor of `desc`, at its bounds, with its elements at `data`.
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

    /// Sets the distance between rows to `stride` elements.
    #[must_use]
    pub fn with_row_stride(mut self, stride: usize) -> Self {
        // A single row has no successor.
        let fits = |&cols: &usize| cols == stride || self.len <= cols;
        let is_dense = self.shape().last().is_none_or(fits);
        self.row_stride = stride;
        self.flags &= !arg_flags::PITCHED;
        self.flags |= if is_dense { 0 } else { arg_flags::PITCHED };
        self
    }

    /// Promises that the gaps between rows do not belong to other tensors of the call.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        if !self.is_dense() {
            self.flags |= arg_flags::ALONE;
        }
        self
    }

    /// Marks the tensor as one side of an in-place pair with port `other` of the other side.
    #[must_use]
    pub const fn paired_with(mut self, other: u16) -> Self {
        self.in_place = other + 1;
        self.flags |= arg_flags::PAIRED;
        self
    }

    /// Returns the dimensions in this run.
    pub fn shape(&self) -> &[usize] {
        self.dims.get(..usize::from(self.rank)).unwrap_or(&[])
    }

    /// Returns the number of elements from the first to the last, gaps included; `None` on overflow.
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

    /// Whether its rows are contiguous.
    pub const fn is_dense(&self) -> bool {
        self.flags & arg_flags::PITCHED == 0
    }

    pub(crate) const fn is_paired(&self) -> bool {
        self.flags & arg_flags::PAIRED != 0
    }

    /// Returns the element type, if this version knows it.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_code(self.dtype)
    }
}

abi_struct! {
    /// The host's parallel-for.
    #[derive(Debug)]
    pub struct ParallelTable {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// The number of threads that work at the same time, the caller included.
        pub width: u32,
        /// The context to pass to `run`.
        pub ctx: *const c_void,
        /// `[execute-time, heap-free]` Calls `task(task_ctx, i)` once for each i below `count`, on any thread, and
        /// returns when all calls are done.
        // SAFETY: only a type; callers follow the description above.
        pub run: unsafe extern "C" fn(
            ctx: *const c_void,
            count: usize,
            // SAFETY: only a type; the callee of `run` passes on its `task_ctx`.
            task: unsafe extern "C" fn(task_ctx: *const c_void, index: usize),
            task_ctx: *const c_void,
        ),
        /// A word that another thread may set from zero to something else during execute, by an atomic write, to cancel
        /// the run. Calls that have not begun may then be skipped, and execute returns `CANCELLED`. Null if the run
        /// cannot be cancelled.
        pub stop: *const u32,
        /// Zero.
        pub reserved_words: [u64; 3],
    }
}

abi_struct! {
    /// The arguments of execute: less than two cache lines.
    #[derive(Debug)]
    pub struct ExecArgs {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// The number of inputs in `tensors`.
        pub input_count: u16,
        /// The number of outputs in `tensors`.
        pub output_count: u16,
        /// The state from finalize.
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
        /// The parallel-for, or null for a single thread.
        pub parallel: *const ParallelTable,
        /// One bit for each of the first 64 outputs that the call must take: those that are present and not empty.
        pub untaken: u64,
        /// One bit for each of the first 64 outputs whose dimensions the call must set: the bounded ones.
        pub unsaid: u64,
        /// The geometry that `prepare` filled for these shapes, aligned to 64. In a call of `prepare`, the zeroed
        /// memory to fill.
        pub geometry: *mut u8,
        /// The size of the geometry in bytes.
        pub geometry_bytes: usize,
        /// The number of packed constants.
        pub packed_count: u16,
        /// Zero.
        pub reserved: [u16; 3],
    }
}

impl ExecArgs {
    /// Returns `untaken` and `unsaid` for a call with these outputs.
    pub fn owed<'a>(outputs: impl IntoIterator<Item = &'a TensorArg>) -> [u64; 2] {
        outputs.into_iter().take(64).enumerate().fold([0; 2], |[untaken, unsaid], (port, arg)| {
            let is_there = arg.flags & arg_flags::ABSENT == 0;
            let untaken = untaken | u64::from(is_there && arg.capacity > 0) << port;
            [untaken, unsaid | u64::from(is_there && arg.bounded != 0) << port]
        })
    }
}
