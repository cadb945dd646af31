//! The extents that kernels set during a run, and their consumers.

use std::cell::UnsafeCell;

use udo_api::DType;
use udo_api::abi::{TensorArg, arg_flags};

/// The extents of a tensor in one run.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub(super) dims: [usize; 8],
    pub(super) rank: usize,
    len: usize,
    row_stride: usize,
}

impl Extents {
    pub(super) fn from_arg(arg: &TensorArg) -> Self {
        Self {
            dims: arg.dims,
            rank: usize::from(arg.rank),
            len: arg.len,
            row_stride: arg.row_stride,
        }
    }

    /// Returns whether the extents agree with the number of elements; a package may have written them.
    fn is_possible(&self) -> bool {
        let dims = self.dims.get(..self.rank).unwrap_or_default();
        dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) == Some(self.len)
    }
}

/// A tensor argument, which kernels access through pointers in every run.
#[repr(transparent)]
pub(super) struct SharedArg(UnsafeCell<TensorArg>);

impl SharedArg {
    pub(super) fn new(arg: TensorArg) -> Self {
        Self(UnsafeCell::new(arg))
    }

    /// Returns the argument between calls.
    pub(super) fn at_rest(&self) -> &TensorArg {
        // SAFETY: the cell is this session's; kernels write to it only while they execute, and none does now.
        unsafe { &*self.0.get() }
    }

    pub(super) fn read(&self) -> Extents {
        Extents::from_arg(self.at_rest())
    }

    /// Returns the first element of a bool tensor between calls, if it has one.
    pub(super) fn first_bool(&self) -> Option<bool> {
        let arg = self.at_rest();
        let is_there = arg.dtype == DType::Bool.code() && arg.len > 0 && !arg.data.is_null();
        // SAFETY: the argument describes memory of the session, or of a constant, with `len` elements of one byte.
        is_there.then(|| unsafe { arg.data.cast::<u8>().read() } != 0)
    }

    /// Moves the elements to another address from the next call on.
    pub(super) fn move_to(&self, data: *mut u8) {
        // SAFETY: as in `at_rest`, and a session belongs to one thread at a time.
        let arg = unsafe { &mut *self.0.get() };
        arg.data = data;
    }

    /// Marks it as part of an in-place pair with port `other` from the next call on, or as unpaired.
    pub(super) fn pair_with(&self, other: Option<u16>) {
        // SAFETY: as in `at_rest`, and a session belongs to one thread at a time.
        let arg = unsafe { &mut *self.0.get() };
        let flags = arg.flags & !arg_flags::PAIRED;
        (arg.in_place, arg.flags) = match other {
            Some(other) => (other + 1, flags | arg_flags::PAIRED),
            None => (0, flags),
        };
    }

    fn capacity(&self) -> usize {
        self.at_rest().capacity
    }

    pub(super) fn write(&self, extents: Extents) {
        // SAFETY: as in `at_rest`, and a session belongs to one thread at a time.
        let arg = unsafe { &mut *self.0.get() };
        arg.dims = extents.dims;
        arg.len = extents.len;
        arg.row_stride = extents.row_stride;
    }
}

/// Copies the extents that a step has set to their consumers; returns false if they are impossible.
pub(super) fn pass_shapes(
    tensors: &[SharedArg],
    shapes: &[(usize, usize)],
    from: u32,
    to: u32,
) -> bool {
    let range = from as usize..to as usize;
    for &(producer, consumer) in shapes.get(range).unwrap_or_default() {
        let Some(said) = tensors.get(producer).map(SharedArg::read) else { return false };
        let Some(arg) = tensors.get(consumer).filter(|_| said.is_possible()) else { return false };
        if said.len > arg.capacity() {
            return false;
        }
        arg.write(said);
    }
    true
}
