//! Memory as the allocator gives it, and no files as memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::ptr::NonNull;

use super::LARGE_BYTES;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, LARGE_BYTES).ok()
}

/// `bytes` zeroed bytes, at least one, aligned to [`LARGE_BYTES`]; none where the system refuses.
pub(super) fn zeroed(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout's size is not 0.
    NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })
}

/// The allocator has written them.
///
/// # Safety
/// None is asked for.
pub(super) unsafe fn populate(_at: NonNull<u8>, _bytes: usize) {}

/// Gives back what [`zeroed`] gave for as many bytes.
///
/// # Safety
/// Nobody refers to it.
pub(super) unsafe fn release_zeroed(at: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: `zeroed` took it with this very layout.
        unsafe { dealloc(at.as_ptr(), layout) };
    }
}

/// `room` bytes, which have memory from the start on as far as the system gives it before they are touched.
pub(super) fn reserve(room: usize) -> Option<NonNull<u8>> {
    zeroed(room)
}

/// They have their memory.
///
/// # Safety
/// None is asked for.
pub(super) unsafe fn resize(_at: NonNull<u8>, _used: usize, _bytes: usize) -> bool {
    true
}

/// Gives back what [`reserve`] gave for as much room.
///
/// # Safety
/// Nobody refers to it.
pub(super) unsafe fn release_reserved(at: NonNull<u8>, room: usize) {
    // SAFETY: as promised by the caller.
    unsafe { release_zeroed(at, room) };
}

/// There is no such way.
pub(super) fn file(_file: &File, _bytes: usize) -> Option<NonNull<u8>> {
    None
}

/// Nothing was mapped.
///
/// # Safety
/// None is asked for.
pub(super) unsafe fn release(_at: NonNull<u8>, _bytes: usize) {}
