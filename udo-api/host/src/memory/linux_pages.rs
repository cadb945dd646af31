//! Page mappings on Linux (`mmap(2)`): zeroed memory, in large pages if available (`madvise(2)`), returned to the
//! system immediately; and mapped files.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

use super::LARGE_BYTES;

// Values from `asm-generic/mman-common.h` and `linux/mman.h`.
const NONE: c_int = 0;
const READ: c_int = 1;
const WRITE: c_int = 2;
const PRIVATE: c_int = 2;
const ANONYMOUS: c_int = 0x20;
const NO_RESERVE: c_int = 0x4000;
const DONT_NEED: c_int = 4;
const HUGE_PAGE: c_int = 14;
const POPULATE_WRITE: c_int = 23;

/// A multiple of every system's page size: 4, 16 or 64 KiB.
const PAGE_BYTES: usize = 64 << 10;

// SAFETY: the signatures are those of `sys/mman.h`, with the `off_t` of 64-bit systems.
unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        rights: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    fn mprotect(at: *mut c_void, bytes: usize, rights: c_int) -> c_int;
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

fn map(bytes: usize, rights: c_int, flags: c_int, file: c_int) -> Option<NonNull<u8>> {
    // SAFETY: the system chooses an unused address, so the mapping replaces nothing.
    let at = unsafe { mmap(null_mut(), bytes, rights, flags, file, 0) };
    // `MAP_FAILED` is the highest address.
    NonNull::new(at.cast::<u8>()).filter(|at| at.addr().get() != usize::MAX)
}

/// Maps `bytes` zeroed bytes, at least one, aligned to [`LARGE_BYTES`]; `None` if the system refuses.
pub(super) fn zeroed(bytes: usize) -> Option<NonNull<u8>> {
    let used = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let room = used.checked_add(LARGE_BYTES)?;
    let first = map(room, READ | WRITE, PRIVATE | ANONYMOUS, -1)?;
    let before = first.as_ptr().align_offset(LARGE_BYTES);
    // SAFETY: the mapping has `used` bytes and a large page; `before` is less than a large page.
    let at = unsafe { first.add(before) };
    // SAFETY: these are the `before` bytes of the mapping ahead of `at`, whole pages without references.
    unsafe { release(first, before) };
    // SAFETY: `before + used` is less than the size of the mapping.
    let behind = unsafe { at.add(used) };
    // SAFETY: these are the bytes of the mapping after the `used` ones from `at` on, whole pages without references.
    unsafe { release(behind, room - before - used) };
    // SAFETY: the advice does not change contents or rights of any address.
    let _refused =
        unsafe { madvise(at.as_ptr().cast(), bytes / LARGE_BYTES * LARGE_BYTES, HUGE_PAGE) };
    Some(at)
}

/// Makes the system provide all pages of `bytes` bytes from `at` on; if it does not support that, pages come at their
/// first use.
///
/// # Safety
/// They are the first bytes of a mapping from [`zeroed`].
pub(super) unsafe fn populate(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the pages belong to the caller, and their contents stay.
    let _refused = unsafe { madvise(at.as_ptr().cast(), bytes, POPULATE_WRITE) };
}

/// Unmaps a mapping from [`zeroed`] with this size.
///
/// # Safety
/// There are no references to it.
pub(super) unsafe fn release_zeroed(at: NonNull<u8>, bytes: usize) {
    // SAFETY: promised by the caller; the mapping consists of whole multiples.
    unsafe { release(at, bytes.next_multiple_of(PAGE_BYTES)) };
}

/// Reserves addresses for `room` bytes, at least one, without memory; `None` if the system refuses.
pub(super) fn reserve(room: usize) -> Option<NonNull<u8>> {
    let room = room.checked_next_multiple_of(PAGE_BYTES)?;
    map(room, NONE, PRIVATE | ANONYMOUS | NO_RESERVE, -1)
}

/// Provides memory for the first `bytes` bytes, where the first `used` had some; returns whether the system did.
///
/// # Safety
/// Both are within the reservation from [`reserve`] at `at`, and there are no references to bytes that lose their
/// memory.
pub(super) unsafe fn resize(at: NonNull<u8>, used: usize, bytes: usize) -> bool {
    let [used, wanted] = [used, bytes].map(|n| n.next_multiple_of(PAGE_BYTES));
    if wanted > used {
        // SAFETY: `used` is within the reserved addresses.
        let behind = unsafe { at.add(used) };
        // SAFETY: these are reserved addresses without memory and without references.
        return unsafe { mprotect(behind.as_ptr().cast(), wanted - used, READ | WRITE) } == 0;
    }
    if wanted < used {
        // SAFETY: `wanted` is within the reserved addresses.
        let behind = unsafe { at.add(wanted) };
        // SAFETY: there are no references to these bytes, as promised by the caller.
        let _kept = unsafe { madvise(behind.as_ptr().cast(), used - wanted, DONT_NEED) };
        // SAFETY: as above.
        return unsafe { mprotect(behind.as_ptr().cast(), used - wanted, NONE) } == 0;
    }
    true
}

/// Releases a reservation from [`reserve`] with this size.
///
/// # Safety
/// There are no references to it.
pub(super) unsafe fn release_reserved(at: NonNull<u8>, room: usize) {
    // SAFETY: promised by the caller; the reservation consists of whole multiples.
    unsafe { release(at, room.next_multiple_of(PAGE_BYTES)) };
}

/// Maps the first `bytes` bytes of a file, at least one, for reading; `None` for a kind of file that cannot be mapped.
pub(super) fn file(file: &File, bytes: usize) -> Option<NonNull<u8>> {
    map(bytes, READ, PRIVATE, file.as_raw_fd())
}

/// Unmaps pages.
///
/// # Safety
/// The `bytes` bytes from `at` on are the start of mapped pages without references.
pub(super) unsafe fn release(at: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: promised by the caller.
        let _refused = unsafe { munmap(at.as_ptr().cast(), bytes) };
    }
}
