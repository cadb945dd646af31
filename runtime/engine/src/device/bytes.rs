//! The storage of a memory: a buffer of this process, or pages that it shares with other processes.
//!
//! Accesses are unsafe, because this module does not check who may access which bytes. Leases do.

#[cfg_attr(target_os = "linux", path = "bytes/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "bytes/none.rs")]
mod pages;
mod words;

use std::sync::atomic::{AtomicBool, Ordering};

use udo_graph::memory::{ALIGN_BYTES, Buffer};

use udo_graph::error::{Result, invalid};

pub(super) use pages::{Pages, page_bytes};

/// The size of a chunk in copies from and to pages that other processes may write.
const CHUNK_BYTES: usize = 512;

/// Bytes at a fixed address.
#[derive(Debug)]
pub(super) struct Storage {
    place: Place,
    /// The offset of the first byte in the buffer or the pages.
    start: usize,
    len: usize,
    peers: Peers,
    /// Whether the pages were exported to other processes.
    is_open: AtomicBool,
}

#[derive(Debug)]
enum Place {
    Own(Buffer),
    Pages(Pages),
}

/// Other users of a memory's bytes, outside of this process's leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// No others: the bytes belong to this process, or were not exported yet.
    None,
    /// No others while this process holds a lease, as the caller promised when it allocated or imported the memory.
    Promised,
    /// Other processes, or another import of the same file in this one, at any time.
    Any,
}

impl Storage {
    /// Allocates zeroed bytes in this process, at a multiple of `align`, a power of two.
    pub(super) fn own(len: usize, align: usize) -> Result<Self> {
        let padding = if align > ALIGN_BYTES { align } else { 0 };
        let padded_len = len.checked_add(padding);
        let padded_len = padded_len.ok_or_else(|| {
            invalid(format!(
                "{len} bytes at a multiple of {align} are more than an address can count"
            ))
        })?;
        let buffer = Buffer::zeroed(padded_len)?;
        let start = if padding == 0 { 0 } else { buffer.as_ptr().align_offset(align).min(padding) };
        let is_open = AtomicBool::new(false);
        Ok(Self { place: Place::Own(buffer), start, len, peers: Peers::None, is_open })
    }

    /// Uses the bytes from `start` in pages that other processes may have too.
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

    /// Marks the pages as exported. No reference to their bytes may exist during the call.
    pub(super) fn open_to_others(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Returns the pages; `None` for a buffer.
    pub(super) fn pages(&self) -> Option<&Pages> {
        match &self.place {
            Place::Own(_) => None,
            Place::Pages(pages) => Some(pages),
        }
    }

    /// Returns whether the bytes are accessed only under this process's leases. Only then may references to them exist.
    pub(super) fn is_exclusive(&self) -> bool {
        self.peers() != Peers::Any
    }

    /// Returns the address of the first byte.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        let first = match &self.place {
            Place::Own(buffer) => buffer.as_ptr(),
            Place::Pages(pages) => pages.as_ptr(),
        };
        first.wrapping_add(self.start)
    }

    /// Returns the address of byte `at`, and the number of bytes from there to the end, at most `len`.
    fn span(&self, at: usize, len: usize) -> (*mut u8, usize) {
        let at = at.min(self.len);
        (self.as_ptr().wrapping_add(at), len.min(self.len - at))
    }

    /// Copies bytes from offset `at` to `into`, up to the end of the storage.
    ///
    /// # Safety
    /// No other lease of this process writes these bytes during the call.
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

    /// Copies `from` to offset `at`, up to the end of the storage.
    ///
    /// # Safety
    /// No other lease of this process accesses these bytes during the call.
    pub(super) unsafe fn write(&self, at: usize, from: &[u8]) {
        let (to, len) = self.span(at, from.len());
        let from = from.get(..len).unwrap_or_default();
        if self.is_exclusive() {
            // SAFETY: `to` has `len` bytes that nothing else accesses, so no reference to them either, as `from` would be.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        } else {
            // SAFETY: the `len` bytes lie in mapped pages, whose words are there as a whole.
            unsafe { words::store(to, from) };
        }
    }

    /// Sets `len` bytes from offset `at`, up to the end of the storage.
    ///
    /// # Safety
    /// No other lease of this process accesses these bytes during the call.
    pub(super) unsafe fn fill(&self, at: usize, len: usize, value: u8) {
        let (to, len) = self.span(at, len);
        if self.is_exclusive() {
            // SAFETY: `to` has `len` bytes that nothing else accesses.
            unsafe { std::ptr::write_bytes(to, value, len) };
            return;
        }
        let chunk = [value; CHUNK_BYTES];
        for start in (0..len).step_by(CHUNK_BYTES) {
            let chunk = chunk.get(..CHUNK_BYTES.min(len - start)).unwrap_or_default();
            // SAFETY: as the caller promises.
            unsafe { self.write(at + start, chunk) };
        }
    }

    /// Copies `len` bytes from offset `source_at` of `source` to offset `at`, up to the end of either. Ranges may overlap, as for
    /// `memmove`.
    ///
    /// # Safety
    /// No other lease of this process writes the source range or accesses the destination range during the call.
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
        // A copy to a later place of the same storage starts at the end, so that it does not overwrite unread bytes.
        let is_backward = std::ptr::eq(self, source) && at > source_at;
        for step in 0..chunks {
            let start = if is_backward { chunks - 1 - step } else { step } * CHUNK_BYTES;
            let chunk = chunk.get_mut(..CHUNK_BYTES.min(len - start)).unwrap_or_default();
            // SAFETY: as the caller promises.
            unsafe { source.read(source_at + start, chunk) };
            // SAFETY: as the caller promises.
            unsafe { self.write(at + start, chunk) };
        }
    }

    /// Returns at most `len` bytes from offset `at`; `None` if other processes may write them.
    ///
    /// # Safety
    /// No lease of this process writes them for as long as the reference lives.
    pub(super) unsafe fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        let (from, len) = self.span(at, len);
        // SAFETY: `from` has `len` initialised bytes for as long as `self` lives, and nobody writes them.
        self.is_exclusive().then(|| unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// Returns at most `len` mutable bytes from offset `at`; `None` if other processes may access them.
    ///
    /// # Safety
    /// Nothing else accesses them for as long as the reference lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "leases ensure that mutable parts of one memory are disjoint"
    )]
    pub(super) unsafe fn slice_mut(&self, at: usize, len: usize) -> Option<&mut [u8]> {
        let (to, len) = self.span(at, len);
        // SAFETY: `to` has `len` initialised bytes for as long as `self` lives, and nobody else is at them.
        self.is_exclusive().then(|| unsafe { std::slice::from_raw_parts_mut(to, len) })
    }
}
