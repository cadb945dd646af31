//! Shared pages on systems other than Linux: not supported.

use std::convert::Infallible;

use udo_graph::error::{Error, ErrorCode, Result};

/// Shared pages, which cannot exist on this system.
#[derive(Debug)]
pub(in crate::device) struct Pages(Infallible);

/// Returns a plausible page size. It is used only in error messages, because shared memory is refused.
pub(in crate::device) fn page_bytes() -> usize {
    4096
}

impl Pages {
    /// Fails: not supported on this system.
    pub(in crate::device) fn anonymous(_: usize) -> Result<Self> {
        let why = "memory is shared between processes on Linux alone; ask for memory of this process's own";
        Err(Error::new(ErrorCode::Unsupported, why))
    }

    pub(in crate::device) fn as_ptr(&self) -> *mut u8 {
        match self.0 {}
    }
}
