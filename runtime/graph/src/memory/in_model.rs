//! Elements that lie in the model's own file, where nothing aligns them. They stay there until somebody wants them aligned, as
//! most of them are only packed, and packers read them where they lie.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use prost::bytes::Bytes;

use super::{Buffer, OutOfMemory};

/// Bytes of a file, and a copy of them, once somebody wanted one.
#[derive(Debug)]
pub(super) struct InModel {
    bytes: Bytes,
    copy: OnceLock<Arc<Buffer>>,
    /// The copy that some plan has.
    of_plans: Arc<Mutex<Weak<Buffer>>>,
}

impl InModel {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, copy: OnceLock::new(), of_plans: Arc::default() }
    }

    /// The same bytes, with a copy of their own or that of another plan.
    pub(super) fn for_plan(&self) -> Self {
        let of_plans = Arc::clone(&self.of_plans);
        Self { bytes: self.bytes.clone(), copy: OnceLock::new(), of_plans }
    }

    /// The bytes where they lie, or their copy if there is one.
    pub(super) fn stored(&self) -> &[u8] {
        self.copy.get().map_or(&self.bytes, |copy| copy.bytes())
    }

    /// The bytes, aligned for elements of so many; as they lie where there is no memory for that, which their reader sees.
    pub(super) fn aligned(&self, element_bytes: usize) -> &[u8] {
        if self.bytes.as_ptr().addr().is_multiple_of(element_bytes.max(1)) {
            return self.stored();
        }
        match self.copy() {
            Ok(_) => self.stored(),
            Err(_) => &self.bytes,
        }
    }

    /// The copy that all who want one share.
    pub(super) fn copy(&self) -> Result<Arc<Buffer>, OutOfMemory> {
        if let Some(copy) = self.copy.get() {
            return Ok(Arc::clone(copy));
        }
        let mut of_plans = self.of_plans.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match of_plans.upgrade() {
            Some(made) => made,
            None => Arc::new(Buffer::from_bytes(&self.bytes)?),
        };
        *of_plans = Arc::downgrade(&made);
        Ok(Arc::clone(self.copy.get_or_init(|| made)))
    }
}
