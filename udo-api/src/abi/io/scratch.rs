//! Memory for intermediate values.

use std::marker::PhantomData;

use crate::{Element, ExecError, Status, Workspace};

/// A bump arena over the scratch that `workspace` declared. What it holds at first is unspecified.
#[derive(Debug)]
pub struct Scratch<'a> {
    pub(super) ptr: *mut u8,
    pub(super) left: usize,
    pub(super) marker: PhantomData<&'a mut [u8]>,
}

impl<'a> Scratch<'a> {
    /// The next `len` elements, aligned to 64 bytes.
    ///
    /// # Errors
    /// More than `workspace` declared.
    pub fn take<T: Element>(&mut self, len: usize) -> Result<&'a mut [T], ExecError> {
        let wanted = len.saturating_mul(size_of::<T>());
        if wanted > self.left {
            return Err(ExecError::with(
                Status::SCRATCH_EXCEEDED,
                [wanted as u64, self.left as u64],
            ));
        }
        if len == 0 {
            return Ok(&mut []);
        }
        let data = self.ptr;
        let step = wanted.next_multiple_of(Workspace::ALIGN_BYTES).min(self.left);
        // SAFETY: `step` is at most what is left of the host's buffer.
        self.ptr = unsafe { self.ptr.add(step) };
        self.left -= step;
        // SAFETY: the buffer starts 64-byte aligned and moves on in steps of 64, so the piece is
        // aligned, initialised (arenas start zeroed), and handed out once.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
    }

    /// Bytes that are left.
    pub fn left_bytes(&self) -> usize {
        self.left
    }
}
