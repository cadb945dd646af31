//! Built-in kernels for loops: the iteration counter, and slices of tensors by iteration.

use udo_api::{
    Bool, DType, Error, ExecError, FinalizeCx, Io, Kernel, Status, TensorDesc, bytes_of,
    bytes_of_mut,
};

/// Does nothing. Marks a position where a run may continue elsewhere.
#[derive(Debug)]
pub struct Stand;

/// Fails if the bool in input 0 has the wrong value.
#[derive(Debug)]
pub struct Check {
    /// The value that passes.
    pub taken: bool,
}

/// Computes the number of the next iteration and whether it takes place.
#[derive(Debug)]
pub struct NextIteration {
    /// Whether this is the first iteration, whose number is 0. Otherwise the number is incremented.
    pub is_first: bool,
    /// Whether input 0 is the maximal number of iterations.
    pub is_limited: bool,
    /// Whether input 1 is the loop condition.
    pub is_conditional: bool,
}

/// The slices of a tensor along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    dtype: Option<DType>,
    outer: usize,
    count: usize,
    inner_bytes: usize,
    /// Whether slice 0 is the last one along the axis.
    is_reversed: bool,
}

/// Copies one slice of input 0; input 1 is its number.
#[derive(Debug)]
pub struct Slice(pub Slices);

/// Copies input 0 to one slice of output 0; input 1 is its number. The other slices are not changed.
#[derive(Debug)]
pub struct Stack(pub Slices);

/// Sets the extent of output 0 along its first axis to input 0. The slices are already there.
#[derive(Debug)]
pub struct Count {
    /// The element type of the output.
    pub dtype: Option<DType>,
}

impl Slices {
    /// Describes the slices of a tensor with fixed extents. `None` if it has no such axis.
    pub fn new(whole: &TensorDesc, axis: usize, is_reversed: bool) -> Option<Self> {
        let dims = whole.shape();
        let inner_bytes =
            dims.get(axis + 1..)?.iter().product::<usize>() * whole.dtype()?.size_bytes();
        let (outer, count) = (dims.get(..axis)?.iter().product(), *dims.get(axis)?);
        Some(Self { dtype: whole.dtype(), outer, count, inner_bytes, is_reversed })
    }

    /// Returns the byte offsets of a slice's parts in the whole tensor.
    fn starts(&self, number: i64) -> Result<impl Iterator<Item = usize>, ExecError> {
        let &Self { outer, count, inner_bytes, is_reversed, .. } = self;
        let number = usize::try_from(number).ok().filter(|&number| number < count);
        let number = number.ok_or(ExecError::of(Status::BAD_CALL))?;
        let at = if is_reversed { count - 1 - number } else { number };
        Ok((0..outer).map(move |outer| (outer * count + at) * inner_bytes))
    }
}

fn number_of(io: &Io<'_>, port: usize) -> Result<i64, ExecError> {
    io.inputs.get::<i64>(port)?.first().copied().ok_or(ExecError::of(Status::BAD_CALL))
}

const HOSTED: &str = "only the host creates this kernel";

impl Kernel for Stand {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        Ok(())
    }
}

impl Kernel for Check {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new(HOSTED))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let truth = io.inputs.get::<Bool>(0)?.first().ok_or(ExecError::of(Status::BAD_CALL))?.get();
        if truth == self.taken { Ok(()) } else { Err(ExecError::bad_value(truth.into(), 0)) }
    }
}

impl Kernel for NextIteration {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new(HOSTED))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let bad = ExecError::of(Status::BAD_CALL);
        let limit = if self.is_limited { number_of(&io, 0)? } else { i64::MAX };
        let truth = if self.is_conditional { io.inputs.get::<Bool>(1)?.first() } else { None };
        let is_wanted = !self.is_conditional || truth.ok_or(bad)?.get();
        let Io { mut outputs, .. } = io;
        let number = outputs.take::<i64>(0)?.first_mut().ok_or(bad)?;
        *number = if self.is_first { 0 } else { number.saturating_add(1) };
        let goes = outputs.take::<Bool>(1)?.first_mut().ok_or(bad)?;
        *goes = Bool::from(is_wanted && *number < limit);
        Ok(())
    }
}

impl Kernel for Slice {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new(HOSTED))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let starts = self.0.starts(number_of(&io, 1)?)?;
        let Io { inputs, mut outputs, .. } = io;
        let bad = ExecError::of(Status::BAD_CALL);
        with_any!(self.0.dtype, T => {
            let whole = bytes_of(inputs.get::<T>(0)?);
            let slice = bytes_of_mut(outputs.take::<T>(0)?);
            for (part, start) in slice.chunks_exact_mut(self.0.inner_bytes.max(1)).zip(starts) {
                part.copy_from_slice(whole.get(start..start + part.len()).ok_or(bad)?);
            }
            Ok(())
        }, else Err(bad))
    }
}

impl Kernel for Stack {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new(HOSTED))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let starts = self.0.starts(number_of(&io, 1)?)?;
        let Io { inputs, mut outputs, .. } = io;
        let bad = ExecError::of(Status::BAD_CALL);
        with_any!(self.0.dtype, T => {
            let slice = bytes_of(inputs.get::<T>(0)?);
            let whole = bytes_of_mut(outputs.take::<T>(0)?);
            for (part, start) in slice.chunks_exact(self.0.inner_bytes.max(1)).zip(starts) {
                let there = whole.get_mut(start..start + part.len()).ok_or(bad)?;
                there.copy_from_slice(part);
            }
            Ok(())
        }, else Err(bad))
    }
}

impl Kernel for Count {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new(HOSTED))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let bad = ExecError::of(Status::BAD_CALL);
        let count = usize::try_from(number_of(&io, 0)?).map_err(|_| bad)?;
        let Io { mut outputs, .. } = io;
        with_any!(self.dtype, T => { outputs.take::<T>(0)?; }, else return Err(bad));
        let mut dims = [0; udo_api::MAX_RANK];
        let shape = outputs.shape(0)?;
        let rank = shape.len();
        let dims = dims.get_mut(..rank).ok_or(bad)?;
        dims.copy_from_slice(shape);
        *dims.first_mut().ok_or(bad)? = count;
        outputs.set_shape(0, dims)
    }
}
