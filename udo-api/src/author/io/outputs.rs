//! The outputs of a call, which a kernel takes (borrows for writing) once each, and their dimensions.

use std::fmt;
use std::marker::PhantomData;

use super::check::{check, check_alone, check_span, check_type, check_width, no_such_port};
use super::pending::{OWED_BITS, Pending};
use crate::abi::{TensorArg, arg_flags};
use crate::author::rows::{RowShape, RowsMut};
use crate::dtype::DType;
use crate::element::{Bits, Element};
use crate::encoding::{AxisEncoding, Encoding};
use crate::error::{ExecError, Status};

/// The outputs of a call. Each must be taken exactly once.
pub struct Outputs<'a> {
    args: *mut TensorArg,
    len: usize,
    pending: &'a Pending,
    marker: PhantomData<&'a mut [TensorArg]>,
}

impl fmt::Debug for Outputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("len", &self.len).finish()
    }
}

impl<'a> Outputs<'a> {
    /// # Safety
    /// `args` must point to `len` arguments without other references for `'a`, and each of them to its elements, which
    /// are accessed only through it and through the input that it is paired with.
    #[inline]
    pub(super) unsafe fn from_raw(args: *mut TensorArg, len: usize, pending: &'a Pending) -> Self {
        let outputs = Self { args, len, pending, marker: PhantomData };
        for port in OWED_BITS..len {
            // SAFETY: `port` is below `len`, and there are no other references to the argument.
            unsafe { &mut *outputs.arg_ptr(port) }.flags &= !arg_flags::TAKEN;
        }
        outputs
    }

    /// Returns the argument of output `port`, which is valid only below `len`.
    #[inline]
    fn arg_ptr(&self, port: usize) -> *mut TensorArg {
        self.args.wrapping_add(port)
    }

    /// Returns the dimensions of output `port`, which is below `len`.
    fn extents(&self, port: usize) -> Extents<'a> {
        Extents { arg: self.arg_ptr(port), port, pending: self.pending, marker: PhantomData }
    }

    #[inline]
    pub(super) fn arg(&self, port: usize) -> Result<&TensorArg, ExecError> {
        if port < self.len {
            // SAFETY: there are `len` arguments at `args`, which change only through `&mut self` or an
            // `Extents`, of which no borrow outlives its call.
            let arg = unsafe { &*self.arg_ptr(port) };
            if arg.flags & arg_flags::ABSENT == 0 {
                return Ok(arg);
            }
        }
        Err(no_such_port(port, self.len))
    }

    /// Returns the number of outputs, including absent ones.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the node has output `port`.
    pub fn has(&self, port: usize) -> bool {
        self.arg(port).is_ok()
    }

    /// Whether the rows of output `port` are contiguous, for ports whose rules accept it (`pitched`).
    ///
    /// # Errors
    /// No such output.
    pub fn is_dense(&self, port: usize) -> Result<bool, ExecError> {
        Ok(self.arg(port)?.is_dense())
    }

    /// Takes the elements of output `port` for writing. A bounded output has the size of its bound.
    ///
    /// # Errors
    /// No such output, another type, strided rows, one side of an in-place pair, or taken before.
    #[inline]
    pub fn take<T: Element>(&mut self, port: usize) -> Result<&'a mut [T], ExecError> {
        check::<T>(self.arg(port)?, port)?;
        self.hand_out(port)
    }

    /// Takes the elements of output `port` as their bits, for any type with the width of `B`.
    ///
    /// # Errors
    /// No such output, a type of another width, strided rows, one side of an in-place pair, or taken before.
    pub fn take_bits<B: Bits>(&mut self, port: usize) -> Result<&'a mut [B], ExecError> {
        let arg = self.arg(port)?;
        check_alone(arg, port)?;
        check_width::<B>(arg)?;
        self.hand_out(port)
    }

    /// Takes an output as [`Outputs::take`] does, with its dimensions separate, so that several bounded outputs can be
    /// held at once.
    ///
    /// Not for authors: a borrow from [`Outputs::shape`] must not be held while dimensions are set.
    ///
    /// # Errors
    /// As [`Outputs::take`].
    pub(crate) fn take_bounded<T: Element>(
        &mut self,
        port: usize,
    ) -> Result<(&'a mut [T], Extents<'a>), ExecError> {
        let elements = self.take(port)?;
        Ok((elements, self.extents(port)))
    }

    /// Records that output `port` is taken, which may happen once per call.
    #[inline]
    fn note_taken(&mut self, port: usize) -> Result<(), ExecError> {
        if Pending::settle(&self.pending.untaken, port) {
            return Ok(());
        }
        self.note_rarely_taken(port)
    }

    /// Empty outputs may be taken repeatedly; those without a bit have a flag.
    #[cold]
    fn note_rarely_taken(&mut self, port: usize) -> Result<(), ExecError> {
        let arg = self.arg(port)?;
        if arg.capacity == 0 {
            return Ok(());
        }
        if port < OWED_BITS || arg.flags & arg_flags::TAKEN != 0 {
            return Err(ExecError::with(Status::OUTPUT_TAKEN, [port as u64, 0]));
        }
        // SAFETY: `arg` checked that the port is below the number of arguments, and its borrow has ended.
        unsafe { &mut *self.arg_ptr(port) }.flags |= arg_flags::TAKEN;
        Ok(())
    }

    /// Returns the whole memory of output `port`, whose type is `T` or has the width of `T`.
    #[inline]
    pub(super) fn hand_out<T: Element>(&mut self, port: usize) -> Result<&'a mut [T], ExecError> {
        self.note_taken(port)?;
        let arg = self.arg(port)?;
        if arg.capacity == 0 || arg.data.is_null() {
            return Ok(&mut []);
        }
        // SAFETY: the host gives each output memory of its own for `capacity` elements, aligned for all types of their
        // size, every bit pattern is an element, and `note_taken` lets it out once per call.
        Ok(unsafe { std::slice::from_raw_parts_mut(arg.data.cast(), arg.capacity) })
    }

    /// Takes the rows of output `port`, which may be strided, for ports whose rules accept it (`pitched`).
    ///
    /// # Errors
    /// No such output, another type, one side of an in-place pair, or taken before.
    pub fn take_rows<T: Element>(&mut self, port: usize) -> Result<RowsMut<'a, T>, ExecError> {
        let arg = self.arg(port)?;
        if arg.is_paired() {
            return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
        }
        check_type::<T>(arg)?;
        self.note_taken(port)?;
        let arg = self.arg(port)?;
        Ok(RowsMut { data: arg.data.cast(), shape: RowShape::new(arg), marker: PhantomData })
    }

    /// Takes the elements of output `port` from the first to the last, with the gaps between its rows, and the row
    /// stride, for ports whose rules accept it (`pitched_alone`). The kernel must leave the gaps unchanged. A bounded
    /// output has the size of its bound.
    ///
    /// # Errors
    /// No such output, another type, one side of an in-place pair, a port whose rules do not accept it, or taken
    /// before.
    pub fn take_strided<T: Element>(
        &mut self,
        port: usize,
    ) -> Result<(&'a mut [T], usize), ExecError> {
        let arg = self.arg(port)?;
        let span = check_span::<T>(arg, port)?;
        let stride = arg.row_stride;
        if arg.is_dense() {
            return Ok((self.hand_out(port)?, stride));
        }
        self.note_taken(port)?;
        let arg = self.arg(port)?;
        if span == 0 || arg.data.is_null() {
            return Ok((&mut [], stride));
        }
        // SAFETY: rows are inside the host's buffer up to the end of the last one, the gaps do not belong to other
        // tensors of the call, and `note_taken` allows one take per call.
        Ok((unsafe { std::slice::from_raw_parts_mut(arg.data.cast(), span) }, stride))
    }

    /// Returns the type of output `port`.
    ///
    /// # Errors
    /// No such output.
    pub fn dtype(&self, port: usize) -> Result<DType, ExecError> {
        self.arg(port)?.dtype().ok_or(ExecError::new(Status::BAD_CALL))
    }

    /// Returns the dimensions of output `port`: its bounds, or those from [`Outputs::set_shape`].
    ///
    /// # Errors
    /// No such output.
    pub fn shape(&self, port: usize) -> Result<&[usize], ExecError> {
        Ok(self.arg(port)?.shape())
    }

    /// Returns the encoding of fixed-point output `port`.
    ///
    /// # Errors
    /// No such output, or it has no encoding.
    pub fn encoding(&self, port: usize) -> Result<Encoding, ExecError> {
        let arg = self.arg(port)?;
        if arg.has_encoding == 0 { Err(ExecError::new(Status::BAD_CALL)) } else { Ok(arg.encoding) }
    }

    /// Returns the encoding of fixed-point output `port` for each position of an axis.
    ///
    /// # Errors
    /// No such output, or it has no encoding per axis.
    pub fn axis_encoding(&self, port: usize) -> Result<&'static AxisEncoding, ExecError> {
        self.arg(port)?.axis_encoding.ok_or(ExecError::new(Status::BAD_CALL))
    }

    /// Sets the dimensions of bounded output `port` in this run. The elements stay in place; bounded dimensions may
    /// shrink, and others must not change.
    ///
    /// # Errors
    /// No such output, another rank, or an invalid dimension.
    pub fn set_shape(&mut self, port: usize, dims: &[usize]) -> Result<(), ExecError> {
        self.arg(port)?;
        self.extents(port).set(dims)
    }

    pub(in crate::author) fn take_raw(&mut self, port: usize) -> Result<TensorArg, ExecError> {
        check_alone(self.arg(port)?, port)?;
        self.take_laid(port)
    }

    /// Returns the host's argument of output `port`, for the host's own kernels: its elements may be accessible only to
    /// a device.
    ///
    /// # Errors
    /// No such output.
    pub fn laid(&self, port: usize) -> Result<&TensorArg, ExecError> {
        self.arg(port)
    }

    /// Takes output `port` and returns its argument like [`Outputs::laid`].
    ///
    /// # Errors
    /// No such output, or taken before.
    pub fn take_laid(&mut self, port: usize) -> Result<TensorArg, ExecError> {
        self.note_taken(port)?;
        Ok(TensorArg { reserved_words: [0; 1], ..*self.arg(port)? })
    }
}

/// The dimensions of one output, which the call may have to set.
pub struct Extents<'a> {
    arg: *mut TensorArg,
    port: usize,
    pending: &'a Pending,
    marker: PhantomData<&'a mut TensorArg>,
}

impl fmt::Debug for Extents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extents").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Extents<'_> {
    /// Sets the dimensions in this run; see [`Outputs::set_shape`].
    ///
    /// # Errors
    /// Another rank, or an invalid dimension.
    pub fn set(&mut self, dims: &[usize]) -> Result<(), ExecError> {
        // SAFETY: the argument outlives the call; views of it are short-lived, and none is held now.
        let arg = unsafe { &mut *self.arg };
        if dims.len() != arg.shape().len() {
            let ranks = [dims.len() as u64, u64::from(arg.rank)];
            return Err(ExecError::with(Status::BOUND_EXCEEDED, ranks));
        }
        for (axis, (&dim, &bound)) in dims.iter().zip(arg.shape()).enumerate() {
            let may_shrink = arg.bounded >> axis & 1 == 1;
            if dim > bound || (dim < bound && !may_shrink) {
                return Err(ExecError::with(Status::BOUND_EXCEEDED, [dim as u64, bound as u64]));
            }
        }
        Pending::settle(&self.pending.unsaid, self.port);
        if arg.bounded != 0 {
            for (target, dim) in arg.dims.iter_mut().zip(dims) {
                *target = *dim;
            }
            // Every dimension is at most its bound, so the product is at most the capacity.
            arg.len = dims.iter().product();
            arg.row_stride = dims.last().copied().unwrap_or(1);
        }
        Ok(())
    }
}
