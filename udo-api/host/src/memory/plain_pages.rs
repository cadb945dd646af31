//! Memory from the allocator, for systems without `linux_pages.rs`; files are not mapped.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::ptr::NonNull;

use super::LARGE_BYTES;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, LARGE_BYTES).ok()
}

/// Allocates `bytes` zeroed bytes, at least one, aligned to [`LARGE_BYTES`]; `None` if the system refuses.
pub(super) fn zeroed(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout's size is not 0.
    NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })
}

/// Does nothing: the allocator has written the bytes.
///
/// # Safety
/// Always safe.
pub(super) unsafe fn populate(_start: NonNull<u8>, _bytes: usize) {}

/// Frees an allocation from [`zeroed`] with this size.
///
/// # Safety
/// There are no references to it.
pub(super) unsafe fn release_zeroed(start: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: `zeroed` allocated it with this layout.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

/// Allocates `bytes` bytes, whose memory the system may provide at first use.
pub(super) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    zeroed(bytes)
}

/// Does nothing: the bytes have memory.
///
/// # Safety
/// Always safe.
pub(super) unsafe fn resize(_start: NonNull<u8>, _used: usize, _bytes: usize) -> bool {
    true
}

/// Frees an allocation from [`reserve`] with this size.
///
/// # Safety
/// There are no references to it.
pub(super) unsafe fn release_reserved(start: NonNull<u8>, bytes: usize) {
    // SAFETY: promised by the caller.
    unsafe { release_zeroed(start, bytes) };
}

/// Returns `None`: files cannot be mapped.
pub(super) fn file(_file: &File, _bytes: usize) -> Option<NonNull<u8>> {
    None
}

/// Does nothing: there are no mappings.
///
/// # Safety
/// Always safe.
pub(super) unsafe fn release(_start: NonNull<u8>, _bytes: usize) {}
