//! Memory for intermediate values of a call.

use std::marker::PhantomData;

use crate::abi::Workspace;
use crate::element::Element;
use crate::error::{ExecError, Status};

/// A bump arena: either the scratch that `workspace` or `needs` declared, with unspecified contents, or the zeroed
/// geometry that `prepare` fills.
#[derive(Debug)]
pub struct Scratch<'a> {
    pub(super) ptr: *mut u8,
    pub(super) left: usize,
    pub(super) marker: PhantomData<&'a mut [u8]>,
}

impl<'a> Scratch<'a> {
    /// Takes the next `len` elements, aligned to 64 bytes.
    ///
    /// # Errors
    /// More than was declared.
    pub fn take<T: Element>(&mut self, len: usize) -> Result<&'a mut [T], ExecError> {
        let step = step::<T>(len, self.left)?;
        if len == 0 {
            return Ok(&mut []);
        }
        let data = self.ptr;
        // SAFETY: `step` is at most the rest of the host's buffer.
        self.ptr = unsafe { self.ptr.add(step) };
        self.left -= step;
        // SAFETY: the buffer starts 64-byte aligned and moves on in steps of 64, so the piece is
        // aligned, initialised (arenas start zeroed), and handed out once.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
    }

    /// Returns the bytes that are left.
    pub fn left_bytes(&self) -> usize {
        self.left
    }
}

/// Returns the bytes from a piece of `len` elements to the next, in a buffer with `left` bytes left.
pub(super) fn step<T: Element>(len: usize, left: usize) -> Result<usize, ExecError> {
    let bytes = len.saturating_mul(size_of::<T>());
    if bytes > left {
        return Err(ExecError::with(Status::SCRATCH_EXCEEDED, [bytes as u64, left as u64]));
    }
    Ok(bytes.next_multiple_of(Workspace::ALIGN_BYTES).min(left))
}
