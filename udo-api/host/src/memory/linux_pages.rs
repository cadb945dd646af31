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
        address: *mut c_void,
        bytes: usize,
        rights: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(address: *mut c_void, bytes: usize) -> c_int;
    fn mprotect(address: *mut c_void, bytes: usize, rights: c_int) -> c_int;
    fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

fn map(bytes: usize, rights: c_int, flags: c_int, file: c_int) -> Option<NonNull<u8>> {
    // SAFETY: the system chooses an unused address, so the mapping replaces nothing.
    let address = unsafe { mmap(null_mut(), bytes, rights, flags, file, 0) };
    // `MAP_FAILED` is the highest address.
    NonNull::new(address.cast::<u8>()).filter(|address| address.addr().get() != usize::MAX)
}

/// Maps `bytes` zeroed bytes, at least one, aligned to [`LARGE_BYTES`]; `None` if the system refuses.
pub(super) fn zeroed(bytes: usize) -> Option<NonNull<u8>> {
    let used = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let mapped_bytes = used.checked_add(LARGE_BYTES)?;
    let first = map(mapped_bytes, READ | WRITE, PRIVATE | ANONYMOUS, -1)?;
    let padding = first.as_ptr().align_offset(LARGE_BYTES);
    // SAFETY: the mapping has `used` bytes and a large page; `padding` is less than a large page.
    let start = unsafe { first.add(padding) };
    // SAFETY: these are the `padding` bytes of the mapping ahead of `start`, whole pages without references.
    unsafe { release(first, padding) };
    // SAFETY: `padding + used` is less than the size of the mapping.
    let tail = unsafe { start.add(used) };
    // SAFETY: these are the bytes of the mapping after the `used` ones from `start` on, whole pages without references.
    unsafe { release(tail, mapped_bytes - padding - used) };
    // SAFETY: the advice does not change contents or rights of any address.
    let _refused =
        unsafe { madvise(start.as_ptr().cast(), bytes / LARGE_BYTES * LARGE_BYTES, HUGE_PAGE) };
    Some(start)
}

/// Makes the system provide all pages of `bytes` bytes from `start` on; if it does not support that, pages come at
/// their first use.
///
/// # Safety
/// They are the first bytes of a mapping from [`zeroed`].
pub(super) unsafe fn populate(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the pages belong to the caller, and their contents stay.
    let _refused = unsafe { madvise(start.as_ptr().cast(), bytes, POPULATE_WRITE) };
}

/// Unmaps a mapping from [`zeroed`] with this size.
///
/// # Safety
/// There are no references to it.
pub(super) unsafe fn release_zeroed(start: NonNull<u8>, bytes: usize) {
    // SAFETY: promised by the caller; the mapping consists of whole multiples.
    unsafe { release(start, bytes.next_multiple_of(PAGE_BYTES)) };
}

/// Reserves addresses for `bytes` bytes, at least one, without memory; `None` if the system refuses.
pub(super) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    map(bytes, NONE, PRIVATE | ANONYMOUS | NO_RESERVE, -1)
}

/// Provides memory for the first `bytes` bytes, where the first `used` had some; returns whether the system did.
///
/// # Safety
/// Both are within the reservation from [`reserve`] at `start`, and there are no references to bytes that lose their
/// memory.
pub(super) unsafe fn resize(start: NonNull<u8>, used: usize, bytes: usize) -> bool {
    let [used, needed] = [used, bytes].map(|n| n.next_multiple_of(PAGE_BYTES));
    if needed > used {
        // SAFETY: `used` is within the reserved addresses.
        let tail = unsafe { start.add(used) };
        // SAFETY: these are reserved addresses without memory and without references.
        return unsafe { mprotect(tail.as_ptr().cast(), needed - used, READ | WRITE) } == 0;
    }
    if needed < used {
        // SAFETY: `needed` is within the reserved addresses.
        let tail = unsafe { start.add(needed) };
        // SAFETY: there are no references to these bytes, as promised by the caller.
        let _refused = unsafe { madvise(tail.as_ptr().cast(), used - needed, DONT_NEED) };
        // SAFETY: as above.
        return unsafe { mprotect(tail.as_ptr().cast(), used - needed, NONE) } == 0;
    }
    true
}

/// Releases a reservation from [`reserve`] with this size.
///
/// # Safety
/// There are no references to it.
pub(super) unsafe fn release_reserved(start: NonNull<u8>, bytes: usize) {
    // SAFETY: promised by the caller; the reservation consists of whole multiples.
    unsafe { release(start, bytes.next_multiple_of(PAGE_BYTES)) };
}

/// Maps the first `bytes` bytes of a file, at least one, for reading; `None` for a kind of file that cannot be mapped.
pub(super) fn file(file: &File, bytes: usize) -> Option<NonNull<u8>> {
    map(bytes, READ, PRIVATE, file.as_raw_fd())
}

/// Unmaps pages.
///
/// # Safety
/// The `bytes` bytes from `start` on are the start of mapped pages without references.
pub(super) unsafe fn release(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: promised by the caller.
        let _refused = unsafe { munmap(start.as_ptr().cast(), bytes) };
    }
}
