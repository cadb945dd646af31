//! The axes of a tensor, or of one with the same elements, in another order.

use udo_api::{Bits, Element, ExecError, Io, bytes_of, bytes_of_mut};
use udo_simd::rows;

use crate::family::axes::strides;
use crate::family::gpu::{Meeting, Steps};

/// The axes of input 0 seen under a shape, in another order.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    pub(crate) shape: Vec<usize>,
    /// The input's axis behind each of the output.
    pub(crate) perm: Vec<usize>,
}

impl Permutation {
    /// Where each element of the output lies in the input.
    pub(crate) fn meeting(&self) -> Meeting {
        let own = strides(&self.shape);
        let dims: Vec<usize> = self.perm.iter().map(|&axis| self.shape[axis]).collect();
        let along = self.perm.iter().map(|&axis| own[axis].cast_signed()).collect();
        Meeting::of(&dims, &[Steps { start: 0, along }])
    }

    pub(crate) fn execute<B: Bits>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        self.copy(io.inputs.get_bits::<B>(0)?, io.outputs.take_bits::<B>(0)?);
        Ok(())
    }

    /// Writes all of `y`.
    pub(crate) fn copy<E: Element>(&self, x: &[E], y: &mut [E]) {
        let (x, y) = (bytes_of(x), bytes_of_mut(y));
        match size_of::<E>() {
            1 => self.run::<1>(x, y),
            2 => self.run::<2>(x, y),
            4 => self.run::<4>(x, y),
            _ => self.run::<8>(x, y),
        }
    }

    fn run<const BYTES: usize>(&self, x: &[u8], y: &mut [u8]) {
        let (x, y) = (x.as_chunks::<BYTES>().0, y.as_chunks_mut::<BYTES>().0);
        rows::transpose(x, &self.shape, &self.perm, y);
    }
}
