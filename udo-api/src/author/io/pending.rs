//! The outputs that a call must take or describe before it may succeed.

use std::cell::Cell;

use crate::abi::{ExecArgs, TensorArg, arg_flags};
use crate::error::{ExecError, Status};
use crate::span::slice_or_empty;

/// The outputs that a call still has to take or describe: one bit per output.
///
/// A kernel takes an output when it gets its elements for writing, and describes it when it sets the dimensions of an
/// output whose shape is only bounded.
///
/// Outputs after the 64th have flags in their arguments and must not be bounded.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) untaken: Cell<u64>,
    pub(super) unsaid: Cell<u64>,
}

/// The number of outputs that have a bit in [`Pending`].
pub(super) const OWED_BITS: usize = 64;

impl Pending {
    #[inline]
    pub(crate) const fn new(args: &ExecArgs) -> Self {
        Self { untaken: Cell::new(args.untaken), unsaid: Cell::new(args.unsaid) }
    }

    /// Clears the bit of `port`; returns whether it was set.
    #[inline]
    pub(super) fn settle(bits: &Cell<u64>, port: usize) -> bool {
        let bit = 1u64.checked_shl(u32::try_from(port).unwrap_or(u32::MAX)).unwrap_or(0);
        let previous = bits.replace(bits.get() & !bit);
        previous & bit != 0
    }

    /// Returns the error of a call that returned without taking or describing all outputs.
    ///
    /// # Safety
    /// `args.tensors` must point to `input_count + output_count` arguments that nothing writes to
    /// concurrently.
    #[inline]
    pub(crate) unsafe fn check(&self, args: &ExecArgs) -> Result<(), ExecError> {
        let (untaken, unsaid) = (self.untaken.get(), self.unsaid.get());
        if untaken | unsaid != 0 {
            let (status, bits) = match untaken {
                0 => (Status::EXTENT_NOT_SAID, unsaid),
                untaken => (Status::OUTPUT_NOT_TAKEN, untaken),
            };
            return Err(ExecError::with(status, [u64::from(bits.trailing_zeros()), 0]));
        }
        let outputs = usize::from(args.output_count);
        if outputs <= OWED_BITS {
            return Ok(());
        }
        // SAFETY: `tensors` points to `input_count` arguments, followed by those of the outputs.
        let first = unsafe { args.tensors.add(usize::from(args.input_count)) };
        // SAFETY: `first` points to `output_count` arguments, which nothing writes to now.
        let outputs = unsafe { slice_or_empty(first, outputs) };
        let is_untaken = |arg: &TensorArg| {
            arg.flags & (arg_flags::ABSENT | arg_flags::TAKEN) == 0 && arg.capacity > 0
        };
        match outputs.iter().skip(OWED_BITS).position(is_untaken) {
            None => Ok(()),
            Some(index) => {
                Err(ExecError::with(Status::OUTPUT_NOT_TAKEN, [(OWED_BITS + index) as u64, 0]))
            }
        }
    }
}
