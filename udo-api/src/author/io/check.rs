//! Checks of tensors before they are handed out.

use crate::abi::{TensorArg, arg_flags};
use crate::dtype::DType;
use crate::element::{Bits, Element};
use crate::error::{ExecError, Status};

pub(super) fn wrong_type(expected: DType, arg: &TensorArg) -> ExecError {
    ExecError::with(Status::WRONG_TYPE, [u64::from(expected.code()), u64::from(arg.dtype)])
}

pub(super) fn check_type<T: Element>(arg: &TensorArg) -> Result<(), ExecError> {
    if arg.dtype == T::DTYPE.code() { Ok(()) } else { Err(wrong_type(T::DTYPE, arg)) }
}

/// Refuses a tensor whose elements do not have the width of `B`.
pub(in crate::author) fn check_width<B: Bits>(arg: &TensorArg) -> Result<(), ExecError> {
    let has_width = |dtype: DType| dtype.size_bytes() == size_of::<B>();
    if arg.dtype().is_some_and(has_width) { Ok(()) } else { Err(wrong_type(B::DTYPE, arg)) }
}

/// Refuses a tensor that is not a dense slice of `T`: one with flags (strided, in place, absent), or of another type.
#[inline]
pub(super) fn check<T: Element>(arg: &TensorArg, port: usize) -> Result<(), ExecError> {
    if arg.flags == 0 && arg.dtype == T::DTYPE.code() {
        return Ok(());
    }
    check_plain::<T>(arg, port)
}

#[cold]
pub(super) fn check_plain<T: Element>(arg: &TensorArg, port: usize) -> Result<(), ExecError> {
    check_alone(arg, port)?;
    check_type::<T>(arg)
}

/// Refuses sides of in-place pairs and strided rows: tensors that are not dense, or share memory.
pub(super) fn check_alone(arg: &TensorArg, port: usize) -> Result<(), ExecError> {
    if arg.is_paired() {
        return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
    }
    if !arg.is_dense() {
        return Err(ExecError::with(Status::NOT_DENSE, [port as u64, 0]));
    }
    Ok(())
}

/// Returns the number of elements from the first to the last, with the gaps between strided rows. Refuses sides of
/// in-place pairs, rows whose gaps may belong to other tensors of the call, and other types.
pub(super) fn check_span<T: Element>(arg: &TensorArg, port: usize) -> Result<usize, ExecError> {
    if arg.is_paired() {
        return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
    }
    if !arg.is_dense() && arg.flags & arg_flags::ALONE == 0 {
        return Err(ExecError::with(Status::NOT_DENSE, [port as u64, 0]));
    }
    check_type::<T>(arg)?;
    arg.span().ok_or(ExecError::new(Status::BAD_CALL))
}

pub(super) fn no_such_port(port: usize, count: usize) -> ExecError {
    ExecError::with(Status::NO_SUCH_PORT, [port as u64, count as u64])
}
