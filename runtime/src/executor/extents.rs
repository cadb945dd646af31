//! What kernels say of a run's extents, and who reads it.

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
    pub(super) fn of(arg: &TensorArg) -> Self {
        Self {
            dims: arg.dims,
            rank: usize::from(arg.rank),
            len: arg.len,
            row_stride: arg.row_stride,
        }
    }

    /// Whether the parts agree with each other; a package may have written them.
    fn is_possible(&self) -> bool {
        let dims = self.dims.get(..self.rank).unwrap_or_default();
        dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) == Some(self.len)
    }
}

/// One tensor of a call, which kernels reach through pointers from run to run.
#[repr(transparent)]
pub(super) struct SharedArg(UnsafeCell<TensorArg>);

impl SharedArg {
    pub(super) fn new(arg: TensorArg) -> Self {
        Self(UnsafeCell::new(arg))
    }

    /// The argument between calls.
    pub(super) fn at_rest(&self) -> &TensorArg {
        // SAFETY: the cell is this session's; kernels write to it only while they execute, and none does now.
        unsafe { &*self.0.get() }
    }

    pub(super) fn read(&self) -> Extents {
        Extents::of(self.at_rest())
    }

    /// The first element of a tensor of truths that has one, between calls.
    pub(super) fn first_truth(&self) -> Option<bool> {
        let arg = self.at_rest();
        let is_there = arg.dtype == DType::Bool.code() && arg.len > 0 && !arg.data.is_null();
        // SAFETY: the session laid the argument out over memory of its own, or of a constant, for `len` elements of a byte.
        is_there.then(|| unsafe { arg.data.cast::<u8>().read() } != 0)
    }

    /// Has the elements lie elsewhere from the next call on.
    pub(super) fn move_to(&self, data: *mut u8) {
        // SAFETY: as in `at_rest`, and a session belongs to one thread at a time.
        let arg = unsafe { &mut *self.0.get() };
        arg.data = data;
    }

    /// Has it be one half of an in-place pair with port `other` from the next call on, or none.
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

/// Copies the extents that a step said to everything that reads them; false if they are impossible.
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
