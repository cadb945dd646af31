//! Memory in pages of its own, as Linux gives it (`mmap(2)`): zeroed already, in large pages where the system has some
//! (`madvise(2)`), and given back at once; and files as memory.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

use super::LARGE_BYTES;

// Of `asm-generic/mman-common.h` and `linux/mman.h`.
const NONE: c_int = 0;
const READ: c_int = 1;
const WRITE: c_int = 2;
const PRIVATE: c_int = 2;
const ANONYMOUS: c_int = 0x20;
const NO_RESERVE: c_int = 0x4000;
const DONT_NEED: c_int = 4;
const HUGE_PAGE: c_int = 14;
const POPULATE_WRITE: c_int = 23;

/// A multiple of the page of every system: they have 4, 16 or 64 KiB.
const PAGE_BYTES: usize = 64 << 10;

// SAFETY: the signatures are those of `sys/mman.h`, with the `off_t` of systems of 64 bits.
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
    // SAFETY: at an address that the system chooses there is nothing yet that a mapping could replace.
    let at = unsafe { mmap(null_mut(), bytes, rights, flags, file, 0) };
    // A refusal is the last address of all.
    NonNull::new(at.cast::<u8>()).filter(|at| at.addr().get() != usize::MAX)
}

/// `bytes` zeroed bytes, at least one, aligned to [`LARGE_BYTES`]; none where the system refuses.
pub(super) fn zeroed(bytes: usize) -> Option<NonNull<u8>> {
    let used = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let room = used.checked_add(LARGE_BYTES)?;
    let first = map(room, READ | WRITE, PRIVATE | ANONYMOUS, -1)?;
    let before = first.as_ptr().align_offset(LARGE_BYTES);
    // SAFETY: the mapping has `used` bytes and a large page; the next multiple of one is less than that away.
    let at = unsafe { first.add(before) };
    // SAFETY: these are the `before` bytes of the mapping ahead of `at`, whole pages that nobody refers to.
    unsafe { release(first, before) };
    // SAFETY: `before` and `used` bytes are less than the mapping has.
    let behind = unsafe { at.add(used) };
    // SAFETY: these are the bytes of the mapping behind the `used` ones from `at` on, whole pages as well.
    unsafe { release(behind, room - before - used) };
    // SAFETY: the advice changes no contents and no rights, whatever lies at the address.
    let _refused =
        unsafe { madvise(at.as_ptr().cast(), bytes / LARGE_BYTES * LARGE_BYTES, HUGE_PAGE) };
    Some(at)
}

/// Has the system give all of the pages that `bytes` bytes from `at` on lie in; where it does not know how, each
/// comes at its first use.
///
/// # Safety
/// They are the first bytes of what [`zeroed`] gave.
pub(super) unsafe fn populate(at: NonNull<u8>, bytes: usize) {
    // SAFETY: the pages are ours, and what is in them stays.
    let _refused = unsafe { madvise(at.as_ptr().cast(), bytes, POPULATE_WRITE) };
}

/// Gives back what [`zeroed`] gave for as many bytes.
///
/// # Safety
/// Nobody refers to it.
pub(super) unsafe fn release_zeroed(at: NonNull<u8>, bytes: usize) {
    // SAFETY: as promised by the caller; the mapping was made of whole multiples.
    unsafe { release(at, bytes.next_multiple_of(PAGE_BYTES)) };
}

/// Addresses of `room` bytes, at least one, without memory; none where the system refuses.
pub(super) fn reserve(room: usize) -> Option<NonNull<u8>> {
    let room = room.checked_next_multiple_of(PAGE_BYTES)?;
    map(room, NONE, PRIVATE | ANONYMOUS | NO_RESERVE, -1)
}

/// Has the first `bytes` bytes have memory, where the first `used` had; whether the system did that.
///
/// # Safety
/// Both are within what [`reserve`] gave from `at` on, and nobody refers to bytes that lose their memory.
pub(super) unsafe fn resize(at: NonNull<u8>, used: usize, bytes: usize) -> bool {
    let [used, wanted] = [used, bytes].map(|n| n.next_multiple_of(PAGE_BYTES));
    if wanted > used {
        // SAFETY: `used` is within the reserved addresses.
        let behind = unsafe { at.add(used) };
        // SAFETY: these are reserved addresses without memory, which nobody refers to.
        return unsafe { mprotect(behind.as_ptr().cast(), wanted - used, READ | WRITE) } == 0;
    }
    if wanted < used {
        // SAFETY: `wanted` is within the reserved addresses.
        let behind = unsafe { at.add(wanted) };
        // SAFETY: nobody refers to these bytes, as promised by the caller.
        let _kept = unsafe { madvise(behind.as_ptr().cast(), used - wanted, DONT_NEED) };
        // SAFETY: as above.
        return unsafe { mprotect(behind.as_ptr().cast(), used - wanted, NONE) } == 0;
    }
    true
}

/// Gives back what [`reserve`] gave for as much room.
///
/// # Safety
/// Nobody refers to it.
pub(super) unsafe fn release_reserved(at: NonNull<u8>, room: usize) {
    // SAFETY: as promised by the caller; the mapping was made of whole multiples.
    unsafe { release(at, room.next_multiple_of(PAGE_BYTES)) };
}

/// The first `bytes` bytes of a file, at least one, to be read; none where it is of a kind that the system does not map.
pub(super) fn file(file: &File, bytes: usize) -> Option<NonNull<u8>> {
    map(bytes, READ, PRIVATE, file.as_raw_fd())
}

/// Gives mapped pages back.
///
/// # Safety
/// The `bytes` bytes from `at` on are the start of pages that are mapped, and nobody refers to these.
pub(super) unsafe fn release(at: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: as promised by the caller.
        let _refused = unsafe { munmap(at.as_ptr().cast(), bytes) };
    }
}
