//! Host memory: aligned buffers, and elements in bytes.

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

/// The most bytes that a buffer can have.
pub const MAX_BYTES: usize = isize::MAX.cast_unsigned() - (2 * LARGE_BYTES - 1);

/// The bytes of a large page, and the alignment of buffers that fill one.
const LARGE_BYTES: usize = 2 << 20;

/// Zeroed bytes, aligned to 64. Those of 2 MiB and more have pages of their own, aligned to that, and the system is asked for
/// large ones: a convolution that streams its weights through 4 KiB pages waits for their addresses. Such pages come
/// zeroed at their first use, and go back to the system with the buffer.
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    /// What it takes of a budget; given back after the bytes.
    lease: Option<Lease>,
    /// Whether the bytes are somebody else's.
    is_lent: bool,
}

// SAFETY: a buffer owns its bytes, as a boxed slice would, or has them from who promises that it may be so.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads the buffer's own bytes.
unsafe impl Sync for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

impl Default for Buffer {
    /// An empty buffer.
    fn default() -> Self {
        Self { ptr: NonNull::dangling(), len: 0, lease: None, is_lent: false }
    }
}

impl Buffer {
    /// A buffer of `len` zeroed bytes.
    ///
    /// # Errors
    /// The system does not give them.
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

    /// A buffer of `len` bytes that are somebody else's and stay so.
    ///
    /// # Safety
    /// From `at` on there are as many initialised bytes, aligned to 64, for as long as the buffer is there. Whenever somebody looks
    /// at bytes of it, nobody changes them by other means, and while somebody changes them, nobody looks.
    pub unsafe fn lent(at: NonNull<u8>, len: usize) -> Self {
        Self { ptr: at, len, lease: None, is_lent: true }
    }

    /// A buffer that holds a copy of `bytes`.
    ///
    /// # Errors
    /// The system does not give as many.
    pub fn of(bytes: &[u8]) -> Result<Self, OutOfMemory> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Takes all its pages now, rather than each at its first use.
    pub fn populate(&mut self) {
        if self.len >= LARGE_BYTES && !self.is_lent {
            // SAFETY: `pages::zeroed` gave the `len` bytes.
            unsafe { pages::populate(self.ptr, self.len) };
        }
    }

    fn counted(self, lease: Lease) -> Self {
        let mut buffer = self;
        buffer.lease = Some(lease);
        buffer
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, ALIGN_BYTES).ok()
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer owns `len` initialised bytes; the pointer is dangling only for 0.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the buffer owns `len` initialised bytes, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// The first byte; aligned to 64 where there are any.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.len {
            0 => {}
            _ if self.is_lent => {}
            // SAFETY: `pages::zeroed` gave the `len` bytes, and every borrow of them has ended.
            LARGE_BYTES.. => unsafe { pages::release_zeroed(self.ptr, self.len) },
            len => {
                if let Some(layout) = Self::layout(len) {
                    // SAFETY: `zeroed` took it with this very layout.
                    unsafe { dealloc(self.ptr.as_ptr(), layout) };
                }
            }
        }
    }
}

/// The elements of `bytes`, or nothing where they are misaligned or end in part of one.
pub fn elements<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is an element, and none has padding.
    let (head, body, tail) = unsafe { bytes.align_to::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(body)
}

/// The elements of `bytes`, to be changed; nothing where they are misaligned or end in part of one.
pub fn elements_mut<T: Element>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: every bit pattern is an element, and none has padding.
    let (head, body, tail) = unsafe { bytes.align_to_mut::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(body)
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
