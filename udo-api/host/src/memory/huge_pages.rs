//! Large pages, as Linux gives them where they are asked for (`madvise(2)`).

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// `MADV_HUGEPAGE` of `asm-generic/mman-common.h`.
const HUGE_PAGE: c_int = 14;

// SAFETY: the signature is that of `sys/mman.h`.
unsafe extern "C" {
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

/// Asks for large pages for an allocation, which may as well have small ones.
pub(super) fn prefer_large(first: NonNull<u8>, bytes: usize) {
    // SAFETY: the advice changes no contents and no rights, whatever lies at the address.
    let _refused = unsafe { madvise(first.as_ptr().cast(), bytes, HUGE_PAGE) };
}
