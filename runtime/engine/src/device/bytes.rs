//! The bytes of a memory where they lie: in this process alone, or in pages that it shares with others.
//!
//! Everything here is unsafe to call but for lengths, as only leases say who may be at which bytes.

#[cfg_attr(target_os = "linux", path = "bytes/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "bytes/none.rs")]
mod pages;
mod words;

use std::sync::atomic::{AtomicBool, Ordering};

use udo_graph::memory::{ALIGN_BYTES, Buffer};

use udo_graph::error::{Result, invalid};

pub(super) use pages::{Pages, page_bytes};

/// Bytes that are copied in one go from and to pages that others may write.
const CHUNK_BYTES: usize = 512;

/// Bytes at an address that stays.
#[derive(Debug)]
pub(super) struct Storage {
    place: Place,
    /// Of the first byte, in the buffer or the pages.
    start: usize,
    len: usize,
    peers: Peers,
    /// Whether others have the pages by now.
    is_open: AtomicBool,
}

#[derive(Debug)]
enum Place {
    Own(Buffer),
    Pages(Pages),
}

/// Who else may be at the bytes of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Nobody: they are this process's own, or were not given to another one yet.
    None,
    /// Nobody while a lease is held, as who allocated or imported them promised.
    Promised,
    /// Other processes, or another import of the same file in this one, at any time.
    Any,
}

impl Storage {
    /// Zeroed bytes of this process's own, at a multiple of `align`, a power of two.
    pub(super) fn own(len: usize, align: usize) -> Result<Self> {
        let more = if align > ALIGN_BYTES { align } else { 0 };
        let wanted = len.checked_add(more);
        let wanted = wanted.ok_or_else(|| {
            invalid(format!(
                "{len} bytes at a multiple of {align} are more than an address can count"
            ))
        })?;
        let buffer = Buffer::zeroed(wanted)?;
        let start = if more == 0 { 0 } else { buffer.as_ptr().align_offset(align).min(more) };
        let is_open = AtomicBool::new(false);
        Ok(Self { place: Place::Own(buffer), start, len, peers: Peers::None, is_open })
    }

    /// Bytes in pages that others may have as well, from `start` on.
    pub(super) fn shared(pages: Pages, start: usize, len: usize, peers: Peers) -> Self {
        let is_open = AtomicBool::new(false);
        Self { place: Place::Pages(pages), start, len, peers, is_open }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn peers(&self) -> Peers {
        if self.is_open.load(Ordering::Acquire) { Peers::Any } else { self.peers }
    }

    /// Notes that others have the pages from now on, while nobody refers to their bytes.
    pub(super) fn open_to_others(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// The pages, if it has such.
    pub(super) fn pages(&self) -> Option<&Pages> {
        match &self.place {
            Place::Own(_) => None,
            Place::Pages(pages) => Some(pages),
        }
    }

    /// Whether only leases lead to the bytes, so that there may be references to them.
    pub(super) fn is_exclusive(&self) -> bool {
        self.peers() != Peers::Any
    }

    /// The first byte.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        let first = match &self.place {
            Place::Own(buffer) => buffer.as_ptr(),
            Place::Pages(pages) => pages.as_ptr(),
        };
        first.wrapping_add(self.start)
    }

    /// The address of byte `at`, with as many bytes behind it that are there, at most `len`.
    fn span(&self, at: usize, len: usize) -> (*mut u8, usize) {
        let at = at.min(self.len);
        (self.as_ptr().wrapping_add(at), len.min(self.len - at))
    }

    /// Copies what lies from `at` on; as much as is there.
    ///
    /// # Safety
    /// Nobody of this process's leases writes these bytes meanwhile.
    pub(super) unsafe fn read(&self, at: usize, into: &mut [u8]) {
        let (from, len) = self.span(at, into.len());
        let into = into.get_mut(..len).unwrap_or_default();
        if self.is_exclusive() {
            // SAFETY: `from` has `len` bytes, which nobody writes; `into` is another's, as a reference to these bytes
            // would need a lease for writing.
            unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        } else {
            // SAFETY: the `len` bytes lie in mapped pages, whose words are there as a whole.
            unsafe { words::load(from, into) };
        }
    }

    /// Writes `from` from `at` on; as much as there is room for.
    ///
    /// # Safety
    /// Nobody else of this process's leases is at these bytes meanwhile.
    pub(super) unsafe fn write(&self, at: usize, from: &[u8]) {
        let (to, len) = self.span(at, from.len());
        let from = from.get(..len).unwrap_or_default();
        if self.is_exclusive() {
            // SAFETY: `to` has `len` bytes that nobody else is at, so no reference to them either, as `from` would be.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        } else {
            // SAFETY: the `len` bytes lie in mapped pages, whose words are there as a whole.
            unsafe { words::store(to, from) };
        }
    }

    /// Sets `len` bytes from `at` on; as many as there are.
    ///
    /// # Safety
    /// Nobody else of this process's leases is at these bytes meanwhile.
    pub(super) unsafe fn fill(&self, at: usize, len: usize, value: u8) {
        let (to, len) = self.span(at, len);
        if self.is_exclusive() {
            // SAFETY: `to` has `len` bytes that nobody else is at.
            unsafe { std::ptr::write_bytes(to, value, len) };
            return;
        }
        let chunk = [value; CHUNK_BYTES];
        for start in (0..len).step_by(CHUNK_BYTES) {
            let chunk = chunk.get(..CHUNK_BYTES.min(len - start)).unwrap_or_default();
            // SAFETY: as promised by the caller.
            unsafe { self.write(at + start, chunk) };
        }
    }

    /// Copies `len` bytes of `source` from `source_at` on to `at`, as `memmove` does; as many as are on both sides.
    ///
    /// # Safety
    /// Nobody else of this process's leases writes what is read, or is at what is written.
    pub(super) unsafe fn copy(&self, at: usize, source: &Self, source_at: usize, len: usize) {
        let (from, len) = source.span(source_at, len);
        let (to, len) = self.span(at, len);
        if self.is_exclusive() && source.is_exclusive() {
            // SAFETY: both have `len` bytes, which nobody else writes, and those at `to` nobody reads.
            unsafe { std::ptr::copy(from, to, len) };
            return;
        }
        let mut chunk = [0; CHUNK_BYTES];
        let chunks = len.div_ceil(CHUNK_BYTES);
        // Where it begins behind its source it would overwrite what is still to be read.
        let is_behind = std::ptr::eq(self, source) && at > source_at;
        for step in 0..chunks {
            let start = if is_behind { chunks - 1 - step } else { step } * CHUNK_BYTES;
            let chunk = chunk.get_mut(..CHUNK_BYTES.min(len - start)).unwrap_or_default();
            // SAFETY: as promised by the caller.
            unsafe { source.read(source_at + start, chunk) };
            // SAFETY: as promised by the caller.
            unsafe { self.write(at + start, chunk) };
        }
    }

    /// The bytes from `at` on, at most `len`; none where others may write them.
    ///
    /// # Safety
    /// Nobody of this process's leases writes them for as long as the reference lives.
    pub(super) unsafe fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        let (from, len) = self.span(at, len);
        // SAFETY: `from` has `len` initialised bytes for as long as `self` lives, and nobody writes them.
        self.is_exclusive().then(|| unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// The bytes from `at` on, at most `len`, to be changed; none where others may be at them.
    ///
    /// # Safety
    /// Nobody else is at them for as long as the reference lives.
    #[expect(clippy::mut_from_ref, reason = "leases of parts of one memory are apart")]
    pub(super) unsafe fn slice_mut(&self, at: usize, len: usize) -> Option<&mut [u8]> {
        let (to, len) = self.span(at, len);
        // SAFETY: `to` has `len` initialised bytes for as long as `self` lives, and nobody else is at them.
        self.is_exclusive().then(|| unsafe { std::slice::from_raw_parts_mut(to, len) })
    }
}
