//! Host memory: aligned buffers, and typed views of bytes.

mod budget;
mod file;
#[cfg_attr(target_os = "linux", path = "memory/machine.rs")]
#[cfg_attr(not(target_os = "linux"), path = "memory/any_machine.rs")]
mod machine;
mod packed;
#[cfg_attr(target_os = "linux", path = "memory/linux_pages.rs")]
#[cfg_attr(not(target_os = "linux"), path = "memory/plain_pages.rs")]
mod pages;
mod reserve;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

use udo_api::Element;

use budget::Lease;
pub use budget::{Budget, Limit, OutOfMemory};
pub use file::FileBytes;
pub use packed::{PackedBytes, SharedBytes};
pub use reserve::Reserve;
pub use udo_api::bytes_of;

/// The alignment of every buffer, in bytes.
pub const ALIGN_BYTES: usize = 64;

/// The maximum size of a buffer in bytes.
pub const MAX_BYTES: usize = isize::MAX.cast_unsigned() - (2 * LARGE_BYTES - 1);

/// The size of a large page, and the alignment of buffers of at least that size.
const LARGE_BYTES: usize = 2 << 20;

/// Zeroed bytes, aligned to 64. A buffer of 2 MiB or more has pages of its own, aligned to 2 MiB, and requests large
/// pages from the system: a convolution that streams its weights through 4 KiB pages waits for address translation.
/// Such pages are zeroed at their first use, and return to the system with the buffer.
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    /// Its share of a budget, returned after the bytes are freed.
    lease: Option<Lease>,
    /// Whether the bytes are borrowed, so that dropping the buffer does not free them.
    is_lent: bool,
}

// SAFETY: a buffer owns its bytes, or the caller of `lent` promised exclusive access.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads the buffer's own bytes.
unsafe impl Sync for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

impl Default for Buffer {
    /// Creates an empty buffer.
    fn default() -> Self {
        Self { ptr: NonNull::dangling(), len: 0, lease: None, is_lent: false }
    }
}

impl Buffer {
    /// Allocates `len` zeroed bytes.
    ///
    /// # Errors
    /// The system does not provide them.
    pub fn zeroed(len: usize) -> Result<Self, OutOfMemory> {
        let refused = OutOfMemory { wanted: len, taken: 0, limit: Limit::None };
        let ptr = match len {
            0 => Some(NonNull::dangling()),
            LARGE_BYTES.. => pages::zeroed(len),
            _ => {
                let layout = Self::layout(len).ok_or(refused)?;
                // SAFETY: the layout's size is not 0.
                NonNull::new(unsafe { alloc_zeroed(layout) })
            }
        };
        Ok(Self { ptr: ptr.ok_or(refused)?, len, lease: None, is_lent: false })
    }

    /// Wraps `len` bytes that the buffer does not own and does not free.
    ///
    /// # Safety
    /// `len` initialised bytes from `ptr` on, aligned to 64, outlive the buffer. While they are read through the
    /// buffer, nothing else changes them, and while they are changed through it, nothing else accesses them.
    pub unsafe fn lent(ptr: NonNull<u8>, len: usize) -> Self {
        Self { ptr, len, lease: None, is_lent: true }
    }

    /// Creates a copy of `bytes`.
    ///
    /// # Errors
    /// The system does not provide the memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OutOfMemory> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Makes the system provide all pages now instead of at their first use.
    pub fn populate(&mut self) {
        if self.len >= LARGE_BYTES && !self.is_lent {
            // SAFETY: `pages::zeroed` allocated the `len` bytes.
            unsafe { pages::populate(self.ptr, self.len) };
        }
    }

    fn with_lease(self, lease: Lease) -> Self {
        let mut buffer = self;
        buffer.lease = Some(lease);
        buffer
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, ALIGN_BYTES).ok()
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer owns `len` initialised bytes; the pointer is dangling only for 0.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the buffer owns `len` initialised bytes, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Returns the address of the first byte; aligned to 64 unless the buffer is empty.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.len {
            0 => {}
            _ if self.is_lent => {}
            // SAFETY: `pages::zeroed` allocated the `len` bytes, and every borrow of them has ended.
            LARGE_BYTES.. => unsafe { pages::release_zeroed(self.ptr, self.len) },
            len => {
                if let Some(layout) = Self::layout(len) {
                    // SAFETY: `zeroed` allocated it with this layout.
                    unsafe { dealloc(self.ptr.as_ptr(), layout) };
                }
            }
        }
    }
}

/// Returns the elements of `bytes`; `None` if they are misaligned or end within an element.
pub fn elements<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is a valid element, and elements have no padding.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

/// Returns the elements of `bytes` for writing; `None` if they are misaligned or end within an element.
pub fn elements_mut<T: Element>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: every bit pattern is a valid element, and elements have no padding.
    let (before, elements, after) = unsafe { bytes.align_to_mut::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        for len in [0, 1, 63, 64, 1000, LARGE_BYTES - 1, LARGE_BYTES, 2 * LARGE_BYTES + 5] {
            let buffer = Buffer::zeroed(len).unwrap();
            assert_eq!(buffer.bytes().len(), len);
            assert!(buffer.bytes().iter().all(|&b| b == 0));
            let align = if len < LARGE_BYTES { ALIGN_BYTES } else { LARGE_BYTES };
            assert!(len == 0 || buffer.as_ptr().addr().is_multiple_of(align), "{len} bytes");
        }
    }
}
