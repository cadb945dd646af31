//! The fallback for systems without a known way to query the memory size.

/// Returns `None`.
pub(super) fn memory_bytes() -> Option<usize> {
    None
}
