//! The tensors of one call as typed views.

mod check;
mod geometry;
mod inputs;
mod outputs;
mod pending;
mod scratch;

use std::marker::PhantomData;

pub use geometry::Geometry;
pub use inputs::{InputShapes, Inputs};
pub use outputs::{Extents, Outputs};
pub(crate) use pending::Pending;
pub use scratch::Scratch;

use super::pack::PackedConstants;
use super::parallel::Parallel;
use crate::abi::{ExecArgs, TensorArg};
use crate::element::{Bits, Element};
use crate::error::{ExecError, Status};
use crate::span::slice_or_empty;
use check::check_type;
pub(in crate::author) use check::check_width;

/// Everything that one call of a kernel may access.
#[derive(Debug)]
pub struct Io<'a> {
    /// The inputs.
    pub inputs: Inputs<'a>,
    /// The outputs.
    pub outputs: Outputs<'a>,
    /// Memory for intermediate values.
    pub scratch: Scratch<'a>,
    /// The host's parallel-for.
    pub parallel: Parallel<'a>,
    /// The packed constants.
    pub packed: PackedConstants<'a>,
    /// The geometry that prepare filled for this run's input shapes.
    pub geometry: Geometry<'a>,
}

/// The two sides of an in-place pair: separate, or the same memory.
#[derive(Debug)]
pub enum Pair<'a, T> {
    /// Input and output are separate.
    Apart(&'a [T], &'a mut [T]),
    /// The output's memory holds the input's elements, which the kernel replaces.
    Same(&'a mut [T]),
}

/// Returns the shapes of the inputs, and the geometry to fill for them.
///
/// # Safety
/// `args.tensors` must point to `input_count` arguments, and `args.geometry` to `geometry_bytes` bytes without other
/// references for `'a`.
pub(crate) unsafe fn to_prepare(args: &ExecArgs) -> (InputShapes<'_>, Scratch<'_>) {
    // SAFETY: `args.tensors` points to at least `input_count` arguments, which live as long as `args`.
    let inputs = unsafe { slice_or_empty(args.tensors, usize::from(args.input_count)) };
    let geometry = Scratch { ptr: args.geometry, left: args.geometry_bytes, marker: PhantomData };
    (InputShapes { args: inputs }, geometry)
}

impl<'a> Io<'a> {
    /// # Safety
    /// The pointers of `args`, and the pointers in their targets, must be valid for `'a` as the ABI says: each output's
    /// memory is accessed only through it and through the input that it is paired with.
    #[inline]
    pub(crate) unsafe fn from_raw(args: &'a ExecArgs, pending: &'a Pending) -> Self {
        let inputs = usize::from(args.input_count);
        let outputs = usize::from(args.output_count);
        // SAFETY: `tensors` points to `input_count` arguments, then to those of the outputs.
        let input_args = unsafe { slice_or_empty(args.tensors, inputs) };
        let outputs = if args.tensors.is_null() { 0 } else { outputs };
        // SAFETY: `output_count` arguments follow those of the inputs; a null pointer is advanced only by 0.
        let outputs =
            unsafe { Outputs::from_raw(args.tensors.wrapping_add(inputs), outputs, pending) };
        // SAFETY: `packed` points to `packed_count` spans of packed constants.
        let packed = unsafe { slice_or_empty(args.packed, usize::from(args.packed_count)) };
        // SAFETY: `parallel` is null or points to a table that is valid during the call.
        let parallel = unsafe { args.parallel.as_ref() };
        Self {
            inputs: Inputs { args: input_args },
            outputs,
            scratch: Scratch { ptr: args.scratch, left: args.scratch_bytes, marker: PhantomData },
            // SAFETY: the functions of the table follow the ABI during the call.
            parallel: unsafe { Parallel::from_table(parallel) },
            packed: PackedConstants::new(packed),
            geometry: Geometry {
                ptr: args.geometry,
                left: args.geometry_bytes,
                marker: PhantomData,
            },
        }
    }

    /// Returns both sides of a pair that the kernel declared in place, whether or not the planner placed them so.
    ///
    /// # Errors
    /// No such ports, a wrong type, or the output was taken before.
    #[inline]
    pub fn pair<T: Element>(
        &mut self,
        input: usize,
        output: usize,
    ) -> Result<Pair<'a, T>, ExecError> {
        if !self.outputs.arg(output)?.is_paired() {
            return Ok(Pair::Apart(self.inputs.get(input)?, self.outputs.take(output)?));
        }
        self.in_place(input, output).map(Pair::Same)
    }

    /// Returns both sides as [`Io::pair`] does, with elements as their bits, for any type with the width of `B`.
    ///
    /// # Errors
    /// As [`Io::pair`], for a type of another width.
    pub fn pair_bits<B: Bits>(
        &mut self,
        input: usize,
        output: usize,
    ) -> Result<Pair<'a, B>, ExecError> {
        if !self.outputs.arg(output)?.is_paired() {
            let elements = self.inputs.get_bits(input)?;
            return Ok(Pair::Apart(elements, self.outputs.take_bits(output)?));
        }
        check_width::<B>(self.paired(input, output)?)?;
        self.outputs.hand_out(output).map(Pair::Same)
    }

    /// Returns the shared memory of an in-place pair: it holds the input's elements, which the kernel replaces.
    ///
    /// # Errors
    /// The planner did not place this pair in place, a wrong type, or the output was taken before.
    #[inline]
    pub fn in_place<T: Element>(
        &mut self,
        input: usize,
        output: usize,
    ) -> Result<&'a mut [T], ExecError> {
        check_type::<T>(self.paired(input, output)?)?;
        self.outputs.hand_out(output)
    }

    /// Returns the argument of an output that shares the input's memory.
    fn paired(&self, input: usize, output: usize) -> Result<&TensorArg, ExecError> {
        let paired = self.inputs.arg(input)?.in_place;
        let arg = self.outputs.arg(output)?;
        if usize::from(arg.in_place) != input + 1 || usize::from(paired) != output + 1 {
            return Err(ExecError::with(Status::IN_PLACE, [output as u64, 0]));
        }
        Ok(arg)
    }
}
