//! Memory that detects overruns: the bytes are between guard pages and as close to one of them as their alignment allows. The rest
//! of their own pages is filled with a pattern, which shows writes (not reads) that stay within these pages.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use udo_testing::{MemoryError, Role};

/// The pattern around the bytes.
const CANARY: u8 = 0xc5;

/// Encodes a role as a number for the fault handler.
fn code(role: Role) -> usize {
    let kind = match role {
        Role::Input(_) => 0,
        Role::Output(_) => 1,
        Role::Constant(_) => 2,
        Role::Scratch => 3,
        Role::Geometry => 4,
    };
    role.port().unwrap_or(0) << 8 | kind
}

/// Decodes a role.
pub(crate) fn role_of(code: usize) -> Role {
    let port = code >> 8;
    match code & 0xff {
        0 => Role::Input(port),
        1 => Role::Output(port),
        2 => Role::Constant(port),
        3 => Role::Scratch,
        _ => Role::Geometry,
    }
}

/// The side of the bytes that is next to a guard page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// The last byte: an access that reaches the guard page after it faults.
    End,
    /// The first byte: an access before it faults.
    Start,
}

/// Bytes between guard pages.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    mapped: usize,
    data: NonNull<u8>,
    len: usize,
    role: Role,
    flush: Flush,
    slot: Option<usize>,
}

// SAFETY: a region owns its bytes, as a boxed slice would.
unsafe impl Send for Region {}
// SAFETY: shared access only reads the region's own bytes.
unsafe impl Sync for Region {}

/// A region as the fault handler sees it; `base` is 0 if the slot is free.
pub(crate) struct Slot {
    pub(crate) base: AtomicUsize,
    pub(crate) mapped: AtomicUsize,
    pub(crate) data: AtomicUsize,
    pub(crate) len: AtomicUsize,
    pub(crate) role: AtomicUsize,
}

/// The regions that the fault handler can name. A region without a free slot is guarded, but not named.
pub(crate) static SLOTS: [Slot; 512] = [const {
    Slot {
        base: AtomicUsize::new(0),
        mapped: AtomicUsize::new(0),
        data: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        role: AtomicUsize::new(0),
    }
}; 512];

/// Marks a slot whose numbers are being written.
const TAKEN: usize = 1;

impl Region {
    /// Allocates `len` bytes filled with the pattern.
    ///
    /// # Errors
    /// The system does not have enough memory.
    pub(crate) fn new(
        role: Role,
        len: usize,
        align: usize,
        flush: Flush,
    ) -> Result<Self, MemoryError> {
        let page = rustix::param::page_size();
        let align = align.max(1);
        let wanted =
            len.max(1).checked_add(align).and_then(|len| len.checked_next_multiple_of(page));
        let mapped = wanted.and_then(|inner| inner.checked_add(2 * page));
        let mapped = mapped.ok_or_else(|| {
            MemoryError::new(format!("{role} of {len} bytes is too large to allocate"))
        })?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses an unused range.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, flags) };
        let at = at.map_err(|error| {
            MemoryError::new(format!("no memory for {role} of {len} bytes: {error}"))
        })?;
        let base = NonNull::new(at.cast::<u8>())
            .ok_or_else(|| MemoryError::new("the system returned address 0"))?;
        let inner = mapped - 2 * page;
        let offset = match flush {
            Flush::Start => 0,
            Flush::End => (inner - len) / align * align,
        };
        // SAFETY: both offsets lie within what was mapped.
        let data = unsafe { base.add(page + offset) };
        let mut region = Self { base, mapped, data, len, role, flush, slot: None };
        region.guard(0, page)?;
        region.guard(mapped - page, page)?;
        region.fill_around();
        region.bytes_mut().fill(CANARY);
        region.slot = region.register();
        Ok(region)
    }

    fn guard(&self, at: usize, len: usize) -> Result<(), MemoryError> {
        // SAFETY: the range is a page at one end of the mapping.
        let page = unsafe { self.base.add(at) }.as_ptr().cast::<c_void>();
        // SAFETY: the page belongs to this region, and there are no references to it.
        let done = unsafe { mprotect(page, len, MprotectFlags::empty()) };
        done.map_err(|error| MemoryError::new(format!("a guard page cannot be set: {error}")))
    }

    fn register(&self) -> Option<usize> {
        let free = |slot: &Slot| {
            slot.base.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let at = SLOTS.iter().position(free)?;
        let slot = SLOTS.get(at)?;
        slot.mapped.store(self.mapped, Ordering::Relaxed);
        slot.data.store(self.data.as_ptr().addr(), Ordering::Relaxed);
        slot.len.store(self.len, Ordering::Relaxed);
        slot.role.store(code(self.role), Ordering::Relaxed);
        slot.base.store(self.base.as_ptr().addr(), Ordering::Release);
        Some(at)
    }

    /// Returns the ranges to fill and check: from the first page to the bytes, and up to one page after them. More would make the
    /// check of each call slower, and overruns are rarely longer.
    fn around(&self) -> [(usize, usize); 2] {
        let page = rustix::param::page_size();
        let start = self.data.as_ptr().addr() - self.base.as_ptr().addr();
        let end = start + self.len;
        [(page, start), (end, (self.mapped - page).min(end + page))]
    }

    fn fill_around(&mut self) {
        for (from, to) in self.around() {
            // SAFETY: the range is within the pages between the guards.
            let at = unsafe { self.base.as_ptr().add(from) };
            // SAFETY: the range is mapped, and there are no other references to it.
            unsafe { at.write_bytes(CANARY, to - from) };
        }
    }

    /// Describes the first write around the bytes, if any.
    pub(crate) fn stray(&self) -> Option<String> {
        let start = self.data.as_ptr().addr() - self.base.as_ptr().addr();
        for (from, to) in self.around() {
            // SAFETY: the range is within the pages between the guards, which are readable.
            let at = unsafe { self.base.as_ptr().add(from) };
            // SAFETY: the range is mapped, and `fill_around` initialized it.
            let around = unsafe { std::slice::from_raw_parts(at, to - from) };
            if let Some(at) = around.iter().position(|&byte| byte != CANARY) {
                let at = from + at;
                let place = if at < start {
                    format!("{} bytes before", start - at)
                } else {
                    format!("{} bytes after the end of", at - start - self.len + 1)
                };
                return Some(format!("writes {place} {}, which has {} bytes", self.role, self.len));
            }
        }
        None
    }

    /// Whether the region has this length and this side at a guard page.
    pub(crate) fn is_like(&self, len: usize, flush: Flush) -> bool {
        (self.len, self.flush) == (len, flush)
    }

    /// Makes the bytes read-only.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn seal(&self) -> Result<(), MemoryError> {
        let page = rustix::param::page_size();
        // SAFETY: the pages between the guards begin there.
        let at = unsafe { self.base.add(page) }.as_ptr().cast::<c_void>();
        // SAFETY: the pages belong to this region.
        let done = unsafe { mprotect(at, self.mapped - 2 * page, MprotectFlags::READ) };
        let role = self.role;
        done.map_err(|error| MemoryError::new(format!("{role} cannot be made read-only: {error}")))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the region owns `len` initialized bytes there.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// Returns the bytes for writing; do not call this on sealed regions.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the region owns `len` bytes there, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.and_then(|at| SLOTS.get(at)) {
            slot.base.store(0, Ordering::Release);
        }
        // SAFETY: the range is the whole mapping, and all borrows of it have ended. If the system refuses, it stays
        // mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
impl Region {
    /// Writes the second byte after the region's own, which exists because of alignment.
    pub(crate) fn write_behind(&self) {
        assert!(self.around()[1].1 >= self.around()[1].0 + 2);
        // SAFETY: the byte exists, between the region's own bytes and its guard page.
        let behind = unsafe { self.data.as_ptr().add(self.len + 1) };
        // SAFETY: as above; there are no references to the byte.
        unsafe { behind.write(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_around_are_watched_on_both_sides() {
        for (len, flush) in
            [(5, Flush::End), (5, Flush::Start), (4096, Flush::End), (0, Flush::End)]
        {
            let mut region = Region::new(Role::Output(2), len, 4, flush).unwrap();
            region.bytes_mut().fill(1);
            assert_eq!((region.bytes().len(), region.stray()), (len, None), "{len} {flush:?}");
        }
        let region = Region::new(Role::Output(2), 5, 64, Flush::End).unwrap();
        region.write_behind();
        assert_eq!(
            region.stray().unwrap(),
            "writes 2 bytes after the end of output 2, which has 5 bytes"
        );
    }

    #[test]
    fn the_end_of_the_bytes_touches_the_guard_page() {
        let page = rustix::param::page_size();
        let region = Region::new(Role::Scratch, 100, 4, Flush::End).unwrap();
        assert!((region.data.as_ptr().addr() + 100).is_multiple_of(page));
        let region = Region::new(Role::Scratch, 100, 64, Flush::Start).unwrap();
        assert!(region.data.as_ptr().addr().is_multiple_of(page));
    }
}
