//! The inputs of a call.

use std::fmt;
use std::marker::PhantomData;

use super::check::{check, check_alone, check_span, check_type, check_width, no_such_port};
use crate::abi::{TensorArg, arg_flags};
use crate::author::rows::{RowShape, Rows};
use crate::dtype::DType;
use crate::element::{Bits, Element};
use crate::encoding::{AxisEncoding, Encoding};
use crate::error::{ExecError, Status};
use crate::span::slice_or_empty;

/// The shapes of inputs without elements.
#[derive(Clone, Copy, Debug)]
pub struct InputShapes<'a> {
    pub(crate) args: &'a [TensorArg],
}

impl<'a> InputShapes<'a> {
    /// Returns the dimensions of input `port`; bounds before a run.
    ///
    /// # Errors
    /// No such input.
    pub fn get(&self, port: usize) -> Result<&'a [usize], ExecError> {
        arg(self.args, port).map(TensorArg::shape)
    }

    /// Returns the number of inputs, including absent ones.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }
}

/// Returns the input at `port`, if the node has it.
#[inline]
fn arg(args: &[TensorArg], port: usize) -> Result<&TensorArg, ExecError> {
    match args.get(port) {
        Some(arg) if arg.flags & arg_flags::ABSENT == 0 => Ok(arg),
        _ => Err(no_such_port(port, args.len())),
    }
}

/// The inputs of a call.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub(super) args: &'a [TensorArg],
}

// SAFETY: through a shared reference arguments are only read, and lead to slices of elements, which may go
// to any thread; `Inputs` never returns a side of an in-place pair.
unsafe impl Send for Inputs<'_> {}
// SAFETY: sharing gives only the reads that sending does.
unsafe impl Sync for Inputs<'_> {}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("len", &self.args.len()).finish()
    }
}

impl<'a> Inputs<'a> {
    #[inline]
    pub(super) fn arg(&self, port: usize) -> Result<&'a TensorArg, ExecError> {
        arg(self.args, port)
    }

    /// Returns the number of inputs, including absent ones.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Whether the node has input `port`.
    pub fn has(&self, port: usize) -> bool {
        self.arg(port).is_ok()
    }

    /// Returns the elements of input `port`, outermost dimension first.
    ///
    /// # Errors
    /// No such input, another type, strided rows, or one side of an in-place pair.
    #[inline]
    pub fn get<T: Element>(&self, port: usize) -> Result<&'a [T], ExecError> {
        let arg = self.arg(port)?;
        check::<T>(arg, port)?;
        // SAFETY: the host gives `len` aligned elements, and nothing writes to them during the call.
        Ok(unsafe { slice_or_empty(arg.data.cast(), arg.len) })
    }

    /// Returns the elements of input `port` as their bits, for any type with the width of `B`.
    ///
    /// # Errors
    /// No such input, a type of another width, strided rows, or one side of an in-place pair.
    pub fn get_bits<B: Bits>(&self, port: usize) -> Result<&'a [B], ExecError> {
        let arg = self.arg(port)?;
        check_alone(arg, port)?;
        check_width::<B>(arg)?;
        // SAFETY: the host gives `len` elements, to which nothing writes during the call, of a type with the size of
        // `B`, and so with its alignment, as `element` asserts; every bit pattern is a `B`.
        Ok(unsafe { slice_or_empty(arg.data.cast(), arg.len) })
    }

    /// Returns the rows of input `port`, which may be strided, for ports whose rules accept it (`pitched`).
    ///
    /// # Errors
    /// No such input, another type, or one side of an in-place pair.
    pub fn rows<T: Element>(&self, port: usize) -> Result<Rows<'a, T>, ExecError> {
        let arg = self.arg(port)?;
        if arg.is_paired() {
            return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
        }
        check_type::<T>(arg)?;
        Ok(Rows { data: arg.data.cast(), shape: RowShape::new(arg), marker: PhantomData })
    }

    /// Returns the elements of input `port` from the first to the last, with the gaps between its rows, and the row
    /// stride, for ports whose rules accept it (`pitched_alone`).
    ///
    /// # Errors
    /// No such input, another type, one side of an in-place pair, or a port whose rules do not accept it.
    pub fn strided<T: Element>(&self, port: usize) -> Result<(&'a [T], usize), ExecError> {
        let arg = self.arg(port)?;
        let span = check_span::<T>(arg, port)?;
        // SAFETY: rows are inside the host's buffer up to the end of the last one, and the gaps do not belong to other
        // tensors of the call, so nothing writes there during the call.
        Ok((unsafe { slice_or_empty(arg.data.cast(), span) }, arg.row_stride))
    }

    /// Whether the rows of input `port` are contiguous, for ports whose rules accept it (`pitched`).
    ///
    /// # Errors
    /// No such input.
    pub fn is_dense(&self, port: usize) -> Result<bool, ExecError> {
        Ok(self.arg(port)?.is_dense())
    }

    /// Returns the type of input `port`.
    ///
    /// # Errors
    /// No such input.
    pub fn dtype(&self, port: usize) -> Result<DType, ExecError> {
        self.arg(port)?.dtype().ok_or(ExecError::new(Status::BAD_CALL))
    }

    /// Returns the dimensions of input `port` in this run.
    ///
    /// # Errors
    /// No such input.
    pub fn shape(&self, port: usize) -> Result<&'a [usize], ExecError> {
        Ok(self.arg(port)?.shape())
    }

    /// Returns the encoding of fixed-point input `port`.
    ///
    /// # Errors
    /// No such input, or it has no encoding.
    pub fn encoding(&self, port: usize) -> Result<Encoding, ExecError> {
        let arg = self.arg(port)?;
        if arg.has_encoding == 0 { Err(ExecError::new(Status::BAD_CALL)) } else { Ok(arg.encoding) }
    }

    /// Returns the encoding of fixed-point input `port` for each position of an axis.
    ///
    /// # Errors
    /// No such input, or it has no encoding per axis.
    pub fn axis_encoding(&self, port: usize) -> Result<&'static AxisEncoding, ExecError> {
        self.arg(port)?.axis_encoding.ok_or(ExecError::new(Status::BAD_CALL))
    }

    /// Returns the host's argument of input `port`, for the host's own kernels: its elements may be accessible only to
    /// a device.
    ///
    /// # Errors
    /// No such input.
    pub fn laid(&self, port: usize) -> Result<&'a TensorArg, ExecError> {
        self.arg(port)
    }

    /// Returns the argument of input `port`, which is dense and not in place.
    pub(in crate::author) fn raw(&self, port: usize) -> Result<&'a TensorArg, ExecError> {
        let arg = self.arg(port)?;
        check_alone(arg, port)?;
        Ok(arg)
    }
}
