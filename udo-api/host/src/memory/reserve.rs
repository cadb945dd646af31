//! Addresses that memory comes to and goes from: what is there never moves.

use std::fmt;
use std::ptr::NonNull;

use super::{ALIGN_BYTES, Limit, OutOfMemory, pages};

/// A range of addresses, the first bytes of which have memory: zeroed when they get it, and in the same place for as long as they
/// have it.
pub struct Reserve {
    at: NonNull<u8>,
    room: usize,
    used: usize,
}

// SAFETY: it is a range of addresses; who reads and writes there has to see to it that nobody else does.
unsafe impl Send for Reserve {}
// SAFETY: as above.
unsafe impl Sync for Reserve {}

impl fmt::Debug for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserve({} of {} bytes)", self.used, self.room)
    }
}

impl Reserve {
    /// Addresses of `room` bytes, at least, without memory.
    ///
    /// # Errors
    /// The system does not give them.
    pub fn new(room: usize) -> Result<Self, OutOfMemory> {
        let refused = OutOfMemory { wanted: room, taken: 0, limit: Limit::None };
        let at = pages::reserve(room.max(ALIGN_BYTES)).ok_or(refused)?;
        Ok(Self { at, room, used: 0 })
    }

    /// How many bytes have memory.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Has the first `bytes` bytes have memory, and no others. Those that had some before stay as they are.
    ///
    /// # Errors
    /// They are more than there are addresses, or the system does not give the memory; nothing has changed.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let refused = OutOfMemory { wanted: bytes, taken: self.used, limit: Limit::None };
        if bytes > self.room {
            return Err(refused);
        }
        // SAFETY: `pages::reserve` gave `room` bytes, of which the first `used` have memory.
        let is_done = unsafe { pages::resize(self.at, self.used, bytes) };
        if !is_done {
            return Err(refused);
        }
        self.used = bytes;
        Ok(())
    }

    /// The first byte; aligned to 64.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: `pages::reserve` gave them, and who used the memory has to be done.
        unsafe { pages::release_reserved(self.at, self.room.max(ALIGN_BYTES)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that have memory.
    fn bytes(of: &mut Reserve) -> &mut [u8] {
        // SAFETY: the first `used` bytes have memory, which is zeroed, and are this test's.
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
