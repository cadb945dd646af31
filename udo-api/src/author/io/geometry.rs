//! The geometry: data that a kernel computes once per set of input shapes (offsets, counts) and reads in each call.

use std::marker::PhantomData;

use super::scratch::step;
use crate::element::Element;
use crate::error::ExecError;

/// The geometry that `prepare` filled. A kernel takes its pieces in the order in which `prepare` took them.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    pub(super) ptr: *const u8,
    pub(super) left: usize,
    pub(super) marker: PhantomData<&'a [u8]>,
}

// SAFETY: the host's bytes at `ptr` are only read during a call, so any thread may read them.
unsafe impl Send for Geometry<'_> {}
// SAFETY: sharing gives only the reads that sending does.
unsafe impl Sync for Geometry<'_> {}

impl<'a> Geometry<'a> {
    /// Takes the next `len` elements.
    ///
    /// # Errors
    /// More than `needs` declared.
    pub fn take<T: Element>(&mut self, len: usize) -> Result<&'a [T], ExecError> {
        let step = step::<T>(len, self.left)?;
        if len == 0 {
            return Ok(&[]);
        }
        let data = self.ptr;
        // SAFETY: `step` is at most the rest of the host's buffer.
        self.ptr = unsafe { self.ptr.add(step) };
        self.left -= step;
        // SAFETY: the buffer starts 64-byte aligned and moves on in steps of 64, so the `len` elements, which
        // `step` found to fit, are aligned; the host zeroed them, `prepare` filled them, and nobody writes to them
        // during the call.
        Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
    }
}
