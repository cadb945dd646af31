//! Memory shared by a host and its worker: one file that the host writes, and one that the worker writes.
//!
//! A reader copies the other side's data word by word, because it may change at any time.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

/// The size of a page.
pub(super) const PAGE: usize = 4096;

/// The address space of a segment. Only pages that were used take memory.
const BYTES: usize = 1 << 36;

/// The offset of the words of a call or answer: counts and tensors.
pub(super) const HEAD: usize = PAGE;

/// The offset of messages and of the elements of inputs.
pub(super) const BULK: usize = 1 << 20;

/// The offset of constants, which outlive calls, in the host's file; and of outputs in the worker's file.
pub(super) const FAR: usize = BYTES / 2;

/// Offsets of words in the first page.
pub(super) mod words {
    /// In the host's file: the number of the request.
    pub(in crate::contain) const REQUEST: usize = 0;
    /// Whether the run was stopped.
    pub(in crate::contain) const STOP: usize = 64;
    /// Whether the host sleeps until the answer.
    pub(in crate::contain) const HOST_SLEEPS: usize = 128;
    /// The kind of the request.
    pub(in crate::contain) const KIND: usize = 192;
    /// The size of the message, as two words.
    pub(in crate::contain) const LEN: usize = 200;

    /// In the worker's file: the number of the last answered request.
    pub(in crate::contain) const ANSWER: usize = 0;
    /// Whether the worker sleeps until the next request.
    pub(in crate::contain) const WORKER_SLEEPS: usize = 64;
}

/// A mapped memory file.
#[derive(Debug)]
pub(super) struct Segment {
    at: NonNull<u8>,
    file: File,
}

// SAFETY: it is an address and a file; what lies there is read and written as words, or by one side alone.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: these bytes were mapped by `map`, and every borrow of them has ended.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), BYTES) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Who may write a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// Only processes that have mapped it already.
    Maker,
    /// Everyone who has the file.
    All,
}

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    Read,
    Write,
}

impl Rights {
    pub(super) fn flags(self) -> ProtFlags {
        match self {
            Self::Read => ProtFlags::READ,
            Self::Write => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

impl Segment {
    /// Creates a segment. It is sealed against shrinking, so that mapped pages always exist.
    pub(super) fn new(writes: Writes) -> io::Result<Self> {
        let file = memfd_create("udo-contain", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, BYTES as u64)?;
        let segment = Self::map(file, Rights::Write)?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW;
        if writes == Writes::Maker {
            seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&segment.file, seals | SealFlags::SEAL)?;
        Ok(segment)
    }

    /// Maps the segment of another process.
    pub(super) fn map(file: OwnedFd, rights: Rights) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: at an address that the system chooses there is nothing yet that a mapping could replace.
        let at = unsafe { mmap(ptr::null_mut(), BYTES, rights.flags(), flags, &file, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { at, file: file.into() })
    }

    /// Returns the file, for another process.
    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the address of `len` bytes at offset `at`; `None` if they exceed the segment.
    pub(super) fn place(&self, at: usize, len: usize) -> Option<*mut u8> {
        let end = at.checked_add(len)?;
        (end <= BYTES).then(|| self.at.as_ptr().wrapping_add(at))
    }

    /// Returns a word of the first page.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        let word = self.at.as_ptr().wrapping_add(at % PAGE / 4 * 4).cast();
        // SAFETY: the first page is mapped for as long as the segment lives, and the place is a multiple of four in it. Both sides
        // know it as such a word; where it is mapped to be read it is only read.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Returns the message of a request, for the worker. The host does not write until it is answered, and no other process can.
    pub(super) fn message(&self, len: usize) -> Option<&[u8]> {
        let at = self.place(BULK, len).filter(|_| len <= FAR - BULK)?;
        // SAFETY: as many bytes are mapped there, and the host leaves them as they are until it is answered.
        Some(unsafe { std::slice::from_raw_parts(at, len) })
    }

    /// Writes bytes. Returns false if they exceed the segment.
    pub(super) fn store(&self, at: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.place(at, bytes.len()) else { return false };
        // SAFETY: as many bytes are mapped there, to be written, and the other side does not look at them before it is told to.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }

    /// Reads bytes that the other side may be writing. Returns false if they exceed the segment.
    pub(super) fn load(&self, at: usize, into: &mut [u8]) -> bool {
        // SAFETY: a slice has room for as many bytes as it has.
        unsafe { self.load_to(at, into.as_mut_ptr(), into.len()) }
    }

    /// Reads as [`Segment::load`] does, to uninitialized or foreign memory.
    ///
    /// # Safety
    /// `to` points to `len` bytes that are the caller's to write.
    pub(super) unsafe fn load_to(&self, at: usize, to: *mut u8, len: usize) -> bool {
        const WORD: usize = size_of::<u64>();
        // All offsets of the protocol are multiples of a word, so whole words stay within the segment.
        let Some(from) = self.place(at, len).filter(|from| from.addr().is_multiple_of(WORD)) else {
            return false;
        };
        let word = |index: usize| {
            let at = from.wrapping_add(index * WORD).cast();
            // SAFETY: it is aligned and mapped, as the segment ends with a whole word.
            unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Relaxed).to_ne_bytes()
        };
        let whole = len / WORD;
        for index in 0..whole {
            let bytes = word(index);
            // SAFETY: the bytes from here on are within `len`.
            unsafe { to.wrapping_add(index * WORD).cast::<[u8; WORD]>().write_unaligned(bytes) };
        }
        let rest = len % WORD;
        if rest > 0 {
            let bytes = word(whole);
            // SAFETY: `rest` bytes are left of `len`.
            unsafe { to.wrapping_add(whole * WORD).copy_from_nonoverlapping(bytes.as_ptr(), rest) };
        }
        true
    }

    /// Returns a copy of bytes that the other side may be writing.
    pub(super) fn copy(&self, at: usize, len: usize) -> Option<Vec<u8>> {
        self.place(at, len)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        bytes.resize(len, 0);
        self.load(at, &mut bytes).then_some(bytes)
    }

    /// Releases memory; the bytes then read as zero. Fails silently on a segment that only its creator may write.
    pub(super) fn release(&self, at: usize, len: usize) {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Memory that is not released is reused by later calls.
        let _not_released = fallocate(&self.file, mode, at as u64, len as u64);
    }
}

/// The time to spin on a word before sleeping: a few times the time to wake a thread.
pub(super) const SPIN: Duration = Duration::from_micros(50);

/// Spins until `accepts` is true for the word's value, at most for `time`. Returns the accepted value.
pub(super) fn spin(word: &AtomicU32, time: Duration, accepts: impl Fn(u32) -> bool) -> Option<u32> {
    let started = Instant::now();
    loop {
        for _ in 0..64 {
            let value = word.load(Ordering::Acquire);
            if accepts(value) {
                return Some(value);
            }
            std::hint::spin_loop();
        }
        if started.elapsed() >= time {
            return None;
        }
    }
}

/// Sleeps until woken, or the word changes from `seen`, or the time is up.
pub(super) fn sleep(word: &AtomicU32, seen: u32, time: Option<Duration>) {
    let time = time.and_then(|time| futex::Timespec::try_from(time).ok());
    match futex::wait(word, futex::Flags::empty(), seen, time.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // Unknown errors: checking again is always correct.
        Err(_) => std::thread::yield_now(),
    }
}

/// Wakes the threads that sleep on the word.
pub(super) fn wake(word: &AtomicU32) {
    // It is not an error if no thread sleeps.
    let _woken = futex::wake(word, futex::Flags::empty(), 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_cannot_write_or_shrink_the_segment() {
        let segment = Segment::new(Writes::Maker).unwrap();
        assert!(segment.store(BULK + 3, b"hello"));
        let reader = Segment::map(segment.fd().unwrap(), Rights::Read).unwrap();
        assert_eq!(reader.copy(BULK, 8).unwrap(), b"\0\0\0hello");
        let refused = Segment::map(segment.fd().unwrap(), Rights::Write).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let shorter = ftruncate(segment.file(), 0).unwrap_err();
        assert_eq!(shorter, Errno::PERM);
    }

    #[test]
    fn accesses_beyond_the_end_are_refused() {
        let segment = Segment::new(Writes::All).unwrap();
        assert!(segment.store(BYTES - 1, &[1]));
        assert!(!segment.store(BYTES, &[1]) && !segment.store(usize::MAX, &[1]));
        assert!(!segment.load(BYTES - 8, &mut [0; 9]));
        let mut read = [0; 5];
        assert!(segment.store(BULK, &[1, 2, 3, 4, 5, 6]) && segment.load(BULK, &mut read));
        assert_eq!(read, [1, 2, 3, 4, 5]);
        segment.release(BULK, PAGE);
        assert_eq!(segment.copy(BULK, 3).unwrap(), [0; 3]);
    }
}
