//! Permuting the axes of a tensor, or of a reshaped view of it.

use udo_api::{Bits, Element, ExecError, Io, MAX_RANK, bytes_of, bytes_of_mut};
use udo_simd::rows;

use crate::family::axes::strides;
use crate::family::gpu::{Steps, StridedAccess};

/// A permutation of the axes of input 0, whose elements are viewed as a tensor of `shape`.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    pub(crate) shape: Vec<usize>,
    /// The input axis of each output axis.
    pub(crate) perm: Vec<usize>,
}

impl Permutation {
    /// Returns how output positions map to input positions.
    pub(crate) fn access(&self) -> StridedAccess {
        let shape_strides = strides(&self.shape);
        let dims: Vec<usize> = self.perm.iter().map(|&axis| self.shape[axis]).collect();
        let along = self.perm.iter().map(|&axis| shape_strides[axis].cast_signed()).collect();
        StridedAccess::new(&dims, &[Steps { start: 0, along }])
    }

    pub(crate) fn execute<B: Bits>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        self.copy(io.inputs.get_bits::<B>(0)?, io.outputs.take_bits::<B>(0)?);
        Ok(())
    }

    /// Permutes with the extents of the input in this run.
    pub(crate) fn execute_bounded<B: Bits>(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (x, shape) = (io.inputs.get_bits::<B>(0)?, io.inputs.shape(0)?);
        let mut dims = [0; MAX_RANK];
        dims.iter_mut().zip(&self.perm).for_each(|(to, &axis)| *to = shape[axis]);
        io.outputs.set_shape(0, &dims[..shape.len()])?;
        self.copy_shaped(x, shape, &mut io.outputs.take_bits::<B>(0)?[..x.len()]);
        Ok(())
    }

    /// Writes all of `y`.
    pub(crate) fn copy<E: Element>(&self, x: &[E], y: &mut [E]) {
        self.copy_shaped(x, &self.shape, y);
    }

    fn copy_shaped<E: Element>(&self, x: &[E], shape: &[usize], y: &mut [E]) {
        let (x, y) = (bytes_of(x), bytes_of_mut(y));
        match size_of::<E>() {
            1 => self.run::<1>(x, shape, y),
            2 => self.run::<2>(x, shape, y),
            4 => self.run::<4>(x, shape, y),
            _ => self.run::<8>(x, shape, y),
        }
    }

    fn run<const BYTES: usize>(&self, x: &[u8], shape: &[usize], y: &mut [u8]) {
        let (x, y) = (x.as_chunks::<BYTES>().0, y.as_chunks_mut::<BYTES>().0);
        rows::transpose(x, shape, &self.perm, y);
    }
}
