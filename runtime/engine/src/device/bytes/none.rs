//! No pages that processes share: how the system does that is not known here.

use std::convert::Infallible;

use crate::device::error::{Error, ErrorCode, Result};

/// This system has no such descriptors.
#[derive(Debug)]
pub(in crate::device) struct Pages(Infallible);

/// Bytes of a page, as far as anybody asks.
pub(in crate::device) fn page_bytes() -> usize {
    4096
}

impl Pages {
    /// Refused.
    pub(in crate::device) fn anonymous(_: usize) -> Result<Self> {
        let why = "memory is shared between processes on Linux alone; ask for memory of this process's own";
        Err(Error::new(ErrorCode::Unsupported, why))
    }

    pub(in crate::device) fn as_ptr(&self) -> *mut u8 {
        match self.0 {}
    }
}
