//! A reservation of addresses whose memory can grow and shrink without moving.

use std::fmt;
use std::ptr::NonNull;

use super::{ALIGN_BYTES, Limit, OutOfMemory, pages};

/// A range of addresses whose first bytes have memory. Memory is zeroed when it is provided and never moves.
pub struct Reserve {
    at: NonNull<u8>,
    room: usize,
    used: usize,
}

// SAFETY: it is a range of addresses; its users must synchronize access to the memory.
unsafe impl Send for Reserve {}
// SAFETY: as above.
unsafe impl Sync for Reserve {}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserve({} of {} bytes)", self.used, self.room)
    }
}

impl Reserve {
    /// Reserves addresses for at least `room` bytes, without memory.
    ///
    /// # Errors
    /// The system does not provide them.
    pub fn new(room: usize) -> Result<Self, OutOfMemory> {
        let refused = OutOfMemory { wanted: room, taken: 0, limit: Limit::None };
        let at = pages::reserve(room.max(ALIGN_BYTES)).ok_or(refused)?;
        Ok(Self { at, room, used: 0 })
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
        if bytes > self.room {
            return Err(refused);
        }
        // SAFETY: `pages::reserve` reserved `room` bytes, of which the first `used` have memory.
        let is_done = unsafe { pages::resize(self.at, self.used, bytes) };
        if !is_done {
            return Err(refused);
        }
        self.used = bytes;
        Ok(())
    }

    /// Returns the address of the first byte, aligned to 64.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: `pages::reserve` reserved them, and the users of the memory have finished.
        unsafe { pages::release_reserved(self.at, self.room.max(ALIGN_BYTES)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that have memory.
    fn bytes(of: &mut Reserve) -> &mut [u8] {
        // SAFETY: the first `used` bytes have zeroed memory, which only this test uses.
        unsafe { std::slice::from_raw_parts_mut(of.as_ptr(), of.used()) }
    }

    #[test]
    fn what_grows_stays_where_it_is() {
        let mut reserve = Reserve::new(1 << 30).unwrap();
        let first = reserve.as_ptr();
        assert!(first.addr().is_multiple_of(ALIGN_BYTES));
        for (size, before) in [(100, 0), (1 << 20, 100), (70_000, 70_000), (70_001, 70_000)] {
            reserve.resize(size).unwrap();
            let now = bytes(&mut reserve);
            assert_eq!((now.as_ptr().cast_mut(), now.len()), (first, size));
            assert!(now[..before.min(size)].iter().all(|&byte| byte == 7), "{size}");
            now.fill(7);
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
    fn addresses_that_no_system_has_are_an_error() {
        assert!(Reserve::new(crate::memory::MAX_BYTES).is_err());
    }
}
