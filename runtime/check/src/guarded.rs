//! The host of all calls of the suite: memory between guard pages, with the heap watched on every
//! thread.

use std::sync::Mutex;

use udo_testing::{HeapUse, Host, Memory, MemoryError, Role};

use crate::raw::heap::{self, Use};
use crate::raw::memory::{Flush, Region};

/// Gives calls memory between guard pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarded {
    /// The end of the memory that touches a guard page.
    pub(crate) flush: Flush,
}

impl Host for Guarded {
    fn memory(&self, role: Role, len: usize, align: usize) -> Result<Box<dyn Memory>, MemoryError> {
        let region = || Region::new(role, len, align, self.flush);
        if role != Role::Scratch || len < CACHED_BYTES {
            return Ok(Box::new(region()?));
        }
        Ok(Box::new(LeasedRegion(Some(take_cached(len, self.flush).map_or_else(region, Ok)?))))
    }

    fn watched(&self, body: &mut dyn FnMut()) -> HeapUse {
        let ((), Use { calls, first_bytes, .. }) = heap::watched(body);
        HeapUse { calls, first_bytes }
    }
}

impl Memory for Region {
    fn bytes(&self) -> &[u8] {
        Self::bytes(self)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        Self::bytes_mut(self)
    }

    fn seal(&self) -> Result<(), MemoryError> {
        Self::seal(self)
    }

    fn stray(&self) -> Option<String> {
        Self::stray(self)
    }
}

/// Workspaces of at least this size are reused across calls: mapping their pages takes longer than
/// filling them.
const CACHED_BYTES: usize = 1 << 20;

/// The most regions in the cache.
const MAX_CACHED: usize = 12;

/// Workspaces that no call uses.
static CACHE: Mutex<Vec<Region>> = Mutex::new(Vec::new());

fn take_cached(bytes: usize, flush: Flush) -> Option<Region> {
    let mut kept = CACHE.lock().ok()?;
    let at = kept.iter().position(|region| region.is_like(bytes, flush))?;
    Some(kept.swap_remove(at))
}

/// A workspace that a call uses; `None` after its return.
#[derive(Debug)]
struct LeasedRegion(Option<Region>);

impl Memory for LeasedRegion {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Region::bytes)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], Region::bytes_mut)
    }

    fn stray(&self) -> Option<String> {
        self.0.as_ref()?.stray()
    }
}

impl Drop for LeasedRegion {
    fn drop(&mut self) {
        // A write around the region is this call's finding and must not be reported for the next one.
        if let Some(region) = self.0.take().filter(|region| region.stray().is_none())
            && let Ok(mut kept) = CACHE.lock()
            && kept.len() < MAX_CACHED
        {
            kept.push(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_that_was_written_beyond_is_not_lent_again() {
        // A length that no other test uses.
        let (host, len) = (Guarded { flush: Flush::End }, CACHED_BYTES + 8);
        let is_kept = || CACHE.lock().unwrap().iter().any(|region| region.is_like(len, Flush::End));
        let mut memory = host.memory(Role::Scratch, len, 64).unwrap();
        memory.bytes_mut().fill(1);
        drop(memory);
        assert!(is_kept());
        let region = take_cached(len, Flush::End).unwrap();
        assert_eq!(region.stray(), None);
        // Alignment leaves some bytes of the region's own page after it.
        region.write_behind();
        drop(LeasedRegion(Some(region)));
        assert!(!is_kept());
    }
}
