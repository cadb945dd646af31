//! The functions of the C library's allocator, each of which counts and goes on to the C library's own.

use std::ffi::{c_int, c_void};

use super::heap::{is_watched, note};

// SAFETY: the GNU C library's own allocator, under the names that stay when others are put before it.
unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
    fn malloc_usable_size(at: *mut c_void) -> usize;
}

/// The bytes that an allocation has.
fn size(at: *mut c_void) -> i64 {
    if at.is_null() {
        return 0;
    }
    // SAFETY: the allocator gave `at` and has not had it back.
    i64::try_from(unsafe { malloc_usable_size(at) }).unwrap_or(i64::MAX)
}

fn taken(bytes: usize, at: *mut c_void) -> *mut c_void {
    if is_watched() {
        note(bytes, size(at));
    }
    at
}

/// As in the C library.
///
/// # Safety
/// None of its own: any number of bytes may be asked for.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: any number may be asked for.
    taken(bytes, unsafe { __libc_malloc(bytes) })
}

/// As in the C library.
///
/// # Safety
/// None of its own: any numbers may be asked for.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: any numbers may be asked for.
    taken(count.saturating_mul(bytes), unsafe { __libc_calloc(count, bytes) })
}

/// As in the C library.
///
/// # Safety
/// `at` is null, or memory that this allocator gave and has not had back.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn realloc(at: *mut c_void, bytes: usize) -> *mut c_void {
    let before = if is_watched() { size(at) } else { 0 };
    // SAFETY: the caller has `at` from this allocator.
    let moved = unsafe { __libc_realloc(at, bytes) };
    if is_watched() {
        note(bytes, size(moved) - before);
    }
    moved
}

/// As in the C library.
///
/// # Safety
/// `at` is null, or memory that this allocator gave and has not had back.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn free(at: *mut c_void) {
    if !at.is_null() && is_watched() {
        note(0, -size(at));
    }
    // SAFETY: the caller has `at` from this allocator.
    unsafe { __libc_free(at) };
}

/// As in the C library.
///
/// # Safety
/// None of its own: the C library refuses alignments that are none.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the C library looks at both numbers.
    taken(bytes, unsafe { __libc_memalign(align, bytes) })
}

/// As in the C library.
///
/// # Safety
/// None of its own: the C library refuses alignments that are none.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    // SAFETY: as for `memalign`.
    taken(bytes, unsafe { __libc_memalign(align, bytes) })
}

/// As in the C library.
///
/// # Safety
/// `to` is a place for a pointer that may be written.
// SAFETY: the name is to be the C library's: it takes that function's place, and does what it does.
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
    let at = taken(bytes, unsafe { __libc_memalign(align, bytes) });
    if at.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller has room for a pointer there.
    unsafe { to.write(at) };
    0
}
