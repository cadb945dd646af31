//! The geometry of steps with variable extents: data that kernels derive from the shapes of their tensors.

use std::cell::Cell;
use std::ops::Range;

use udo_api::Status;
use udo_api::abi::ExecArgs;
use udo_host::{Buffer, ExecuteFn};

use super::extents::SharedArg;

/// A step's geometry, and the extents that it was computed for.
pub(super) struct StepGeometry {
    prepare: ExecuteFn,
    /// The range of the step's inputs among the session's tensors.
    inputs: Range<usize>,
    /// The extents of each input at the last call of `prepare`.
    filled_for: Vec<Cell<[usize; 8]>>,
    buffer: Buffer,
}

impl StepGeometry {
    pub(super) fn new(prepare: ExecuteFn, inputs: Range<usize>, buffer: Buffer) -> Self {
        let filled_for = inputs.clone().map(|_| Cell::new(NOTHING)).collect();
        Self { prepare, inputs, filled_for, buffer }
    }

    /// Returns its address and length.
    pub(super) fn bytes(&self) -> (*mut u8, usize) {
        (self.buffer.as_ptr(), self.buffer.len())
    }

    /// Recomputes the geometry if an extent has changed; returns the status.
    ///
    /// # Safety
    /// `args` must be the arguments of the step's call, and `tensors` those that it points into.
    pub(super) unsafe fn update(&self, tensors: &[SharedArg], args: *const ExecArgs) -> u32 {
        let inputs = tensors.get(self.inputs.clone()).unwrap_or_default();
        let mut is_filled = true;
        for (tensor, filled_for) in inputs.iter().zip(&self.filled_for) {
            let dims = tensor.at_rest().dims;
            is_filled &= filled_for.replace(dims) == dims;
        }
        if is_filled {
            return Status::OK.code();
        }
        // SAFETY: `args` points to the step's tensors and to this geometry, which nothing else refers to.
        let status = unsafe { (self.prepare)(args) };
        if status != Status::OK.code() {
            self.filled_for.iter().for_each(|filled_for| filled_for.set(NOTHING));
        }
        status
    }
}

/// Extents that no tensor has.
const NOTHING: [usize; 8] = [usize::MAX; 8];
