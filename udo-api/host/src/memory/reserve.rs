//! A reservation of addresses whose memory can grow and shrink without moving.

use std::fmt;
use std::ptr::NonNull;

use super::{ALIGN_BYTES, Limit, OutOfMemory, pages};

/// A range of addresses whose first bytes have memory. Memory is zeroed when it is provided and never moves.
pub struct Reserve {
    start: NonNull<u8>,
    reserved_bytes: usize,
    /// The number of bytes, from the start, that have memory.
    used: usize,
}

// SAFETY: it is a range of addresses; its users must synchronize access to the memory.
unsafe impl Send for Reserve {}
// SAFETY: as above.
unsafe impl Sync for Reserve {}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserve({} of {} bytes)", self.used, self.reserved_bytes)
    }
}

impl Reserve {
    /// Reserves addresses for at least `bytes` bytes, without memory.
    ///
    /// # Errors
    /// The system does not provide them.
    pub fn new(bytes: usize) -> Result<Self, OutOfMemory> {
        let refused = OutOfMemory { wanted: bytes, taken: 0, limit: Limit::None };
        let start = pages::reserve(bytes.max(ALIGN_BYTES)).ok_or(refused)?;
        Ok(Self { start, reserved_bytes: bytes, used: 0 })
    }

    /// Returns how many bytes have memory.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Provides memory for the first `bytes` bytes only. Bytes that had memory before keep their contents.
    ///
    /// # Errors
    /// They exceed the reservation, or the system does not provide the memory; nothing changes then.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let refused = OutOfMemory { wanted: bytes, taken: self.used, limit: Limit::None };
        if bytes > self.reserved_bytes {
            return Err(refused);
        }
        // SAFETY: `pages::reserve` reserved `reserved_bytes` bytes, of which the first `used` have memory.
        let is_resized = unsafe { pages::resize(self.start, self.used, bytes) };
        if !is_resized {
            return Err(refused);
        }
        self.used = bytes;
        Ok(())
    }

    /// Returns the address of the first byte, aligned to 64.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: `pages::reserve` reserved them, and the users of the memory have finished.
        unsafe { pages::release_reserved(self.start, self.reserved_bytes.max(ALIGN_BYTES)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that have memory.
    fn bytes(reserve: &mut Reserve) -> &mut [u8] {
        // SAFETY: the first `used` bytes have zeroed memory, which only this test uses.
        unsafe { std::slice::from_raw_parts_mut(reserve.as_ptr(), reserve.used()) }
    }

    #[test]
    fn growing_and_shrinking_keep_the_address_and_contents() {
        let mut reserve = Reserve::new(1 << 30).unwrap();
        let first = reserve.as_ptr();
        assert!(first.addr().is_multiple_of(ALIGN_BYTES));
        for (size, unchanged) in [(100, 0), (1 << 20, 100), (70_000, 70_000), (70_001, 70_000)] {
            reserve.resize(size).unwrap();
            let resized = bytes(&mut reserve);
            assert_eq!((resized.as_ptr().cast_mut(), resized.len()), (first, size));
            assert!(resized[..unchanged.min(size)].iter().all(|&byte| byte == 7), "{size}");
            resized.fill(7);
        }
        reserve.resize(0).unwrap();
        reserve.resize(1 << 20).unwrap();
        assert!(
            cfg!(not(target_os = "linux")) || bytes(&mut reserve).iter().all(|&byte| byte == 0)
        );
        let error = reserve.resize((1 << 30) + 1).unwrap_err();
        assert_eq!((error.wanted, reserve.used()), ((1 << 30) + 1, 1 << 20));
    }

    #[test]
    fn reserving_more_than_the_address_space_is_an_error() {
        assert!(Reserve::new(crate::memory::MAX_BYTES).is_err());
    }
}
