//! The functions of the C library's allocator. Each one counts and forwards to the C library.

use std::ffi::{c_int, c_void};

use super::heap::{is_watched, note};

// SAFETY: the GNU C library's own allocator, under names that interposition does not change.
unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
    fn malloc_usable_size(at: *mut c_void) -> usize;
}

/// Returns the size of an allocation.
fn size(at: *mut c_void) -> i64 {
    if at.is_null() {
        return 0;
    }
    // SAFETY: `at` is an allocation of this allocator that was not freed.
    i64::try_from(unsafe { malloc_usable_size(at) }).unwrap_or(i64::MAX)
}

fn count_allocation(bytes: usize, at: *mut c_void) -> *mut c_void {
    if is_watched() {
        note(bytes, size(at));
    }
    at
}

/// Same as in the C library.
///
/// # Safety
/// Any size is allowed.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: any size is allowed.
    count_allocation(bytes, unsafe { __libc_malloc(bytes) })
}

/// Same as in the C library.
///
/// # Safety
/// Any numbers are allowed.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: any numbers are allowed.
    count_allocation(count.saturating_mul(bytes), unsafe { __libc_calloc(count, bytes) })
}

/// Same as in the C library.
///
/// # Safety
/// `at` is null or an allocation of this allocator that was not freed.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn realloc(at: *mut c_void, bytes: usize) -> *mut c_void {
    let before = if is_watched() { size(at) } else { 0 };
    // SAFETY: the caller got `at` from this allocator.
    let moved = unsafe { __libc_realloc(at, bytes) };
    if is_watched() {
        note(bytes, size(moved) - before);
    }
    moved
}

/// Same as in the C library.
///
/// # Safety
/// `at` is null or an allocation of this allocator that was not freed.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn free(at: *mut c_void) {
    if !at.is_null() && is_watched() {
        note(0, -size(at));
    }
    // SAFETY: the caller got `at` from this allocator.
    unsafe { __libc_free(at) };
}

/// Same as in the C library.
///
/// # Safety
/// Any arguments are allowed: the C library refuses invalid alignments.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the C library checks both numbers.
    count_allocation(bytes, unsafe { __libc_memalign(align, bytes) })
}

/// Same as in the C library.
///
/// # Safety
/// Any arguments are allowed: the C library refuses invalid alignments.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: as for `memalign`.
    count_allocation(bytes, unsafe { __libc_memalign(align, bytes) })
}

/// Same as in the C library.
///
/// # Safety
/// `to` is valid for writing a pointer.
// SAFETY: the exported name is the C library's: this function replaces it with the same behaviour.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn posix_memalign(
    to: *mut *mut c_void,
    align: usize,
    bytes: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    // SAFETY: as for `memalign`.
    let at = count_allocation(bytes, unsafe { __libc_memalign(align, bytes) });
    if at.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a place for a pointer.
    unsafe { to.write(at) };
    0
}
