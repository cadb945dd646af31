//! Tensor elements inside the bytes of a model file, which may not be aligned.
//!
//! Most weights are only prepacked, that is, rearranged for a kernel, and that code reads unaligned bytes. So the
//! elements are copied to aligned memory only when something asks for an aligned slice.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use prost::bytes::Bytes;

use super::{Buffer, OutOfMemory};

/// The elements of a tensor in a model file, and their aligned copy after its first use.
#[derive(Debug)]
pub(super) struct InModel {
    bytes: Bytes,
    copy: OnceLock<Arc<Buffer>>,
    /// The copy that plans (compiled graphs) of this tensor share, while one of them is alive.
    shared_copy: Arc<Mutex<Weak<Buffer>>>,
}

impl InModel {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, copy: OnceLock::new(), shared_copy: Arc::default() }
    }

    /// Returns the same elements for another plan. The aligned copy is created on first use, or shared with a plan that
    /// has one, and is freed with the last plan that used it.
    pub(super) fn for_plan(&self) -> Self {
        let shared_copy = Arc::clone(&self.shared_copy);
        Self { bytes: self.bytes.clone(), copy: OnceLock::new(), shared_copy }
    }

    /// Returns the aligned copy if it exists, else the bytes of the file.
    pub(super) fn stored(&self) -> &[u8] {
        self.copy.get().map_or(&self.bytes, |copy| copy.bytes())
    }

    /// Returns the bytes, aligned for elements of `element_bytes` bytes. If the allocation of a copy fails, the bytes are
    /// not aligned; the caller checks.
    pub(super) fn aligned(&self, element_bytes: usize) -> &[u8] {
        if self.bytes.as_ptr().addr().is_multiple_of(element_bytes.max(1)) {
            return self.stored();
        }
        match self.copy() {
            Ok(_) => self.stored(),
            Err(_) => &self.bytes,
        }
    }

    /// Returns the aligned copy, creating it if no plan has one.
    pub(super) fn copy(&self) -> Result<Arc<Buffer>, OutOfMemory> {
        if let Some(copy) = self.copy.get() {
            return Ok(Arc::clone(copy));
        }
        let mut shared_copy = self.shared_copy.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = match shared_copy.upgrade() {
            Some(copy) => copy,
            None => Arc::new(Buffer::from_bytes(&self.bytes)?),
        };
        *shared_copy = Arc::downgrade(&copy);
        Ok(Arc::clone(self.copy.get_or_init(|| copy)))
    }
}
