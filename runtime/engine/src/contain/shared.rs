//! Memory that a host and its worker share: one file that the host writes and the worker reads, one for the other way.
//!
//! Who reads what the other writes copies it word by word, so that nothing counts on it staying as it was.

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
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Bytes of addresses that a segment takes; of memory it takes what was ever used.
const BYTES: usize = 1 << 36;

/// Where the words of a call lie: counts, tensors, and what a call answers.
pub(super) const HEAD: usize = PAGE;

/// Where bulk begins: messages, and elements of a call's inputs.
pub(super) const BULK: usize = 1 << 20;

/// Where what outlives a call begins in what the host writes: constants; and in what the worker writes, a call's outputs.
pub(super) const FAR: usize = BYTES / 2;

/// Words of the first page.
pub(super) mod words {
    /// Of what the host writes: the number of the request.
    pub(in crate::contain) const REQUEST: usize = 0;
    /// Whether nobody wants the results any more.
    pub(in crate::contain) const STOP: usize = 64;
    /// Whether the host sleeps until it is answered.
    pub(in crate::contain) const HOST_SLEEPS: usize = 128;
    /// What is asked.
    pub(in crate::contain) const KIND: usize = 192;
    /// Bytes of the message, as two words.
    pub(in crate::contain) const LEN: usize = 200;

    /// Of what the worker writes: the number of the request that was answered last.
    pub(in crate::contain) const ANSWER: usize = 0;
    /// Whether the worker sleeps until it is asked.
    pub(in crate::contain) const WORKER_SLEEPS: usize = 64;
}

/// A file of memory, mapped.
#[derive(Debug)]
pub(super) struct Segment {
    at: NonNull<u8>,
    file: File,
}

// SAFETY: it is an address and a file; what lies there is read and written as words, or by one side alone.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Who writes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// Only those who have it mapped already.
    Maker,
    /// Whoever has it.
    All,
}

/// What somebody may do with memory.
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
    /// A new one. Nobody makes it shorter, so that what is mapped stays there.
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

    /// That of another process.
    pub(super) fn map(file: OwnedFd, rights: Rights) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: at an address that the system chooses there is nothing yet that a mapping could replace.
        let at = unsafe { mmap(ptr::null_mut(), BYTES, rights.flags(), flags, &file, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { at, file: file.into() })
    }

    /// The file, for another process.
    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The byte at `at`, behind which there are `len`; nothing where they are not all there.
    pub(super) fn place(&self, at: usize, len: usize) -> Option<*mut u8> {
        let end = at.checked_add(len)?;
        (end <= BYTES).then(|| self.at.as_ptr().wrapping_add(at))
    }

    /// A word of the first page.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        let word = self.at.as_ptr().wrapping_add(at % PAGE / 4 * 4).cast();
        // SAFETY: the first page is mapped for as long as the segment lives, and the place is a multiple of four in it. Both sides
        // know it as such a word; where it is mapped to be read it is only read.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// The message of a call, for the worker: its host writes nothing until it has been answered, and else nobody can.
    pub(super) fn message(&self, len: usize) -> Option<&[u8]> {
        let at = self.place(BULK, len).filter(|_| len <= FAR - BULK)?;
        // SAFETY: as many bytes are mapped there, and the host leaves them as they are until it is answered.
        Some(unsafe { std::slice::from_raw_parts(at, len) })
    }

    /// Writes bytes; false where they are not all there.
    pub(super) fn store(&self, at: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.place(at, bytes.len()) else { return false };
        // SAFETY: as many bytes are mapped there, to be written, and the other side does not look at them before it is told to.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }

    /// Reads bytes that the other side may write meanwhile; false where they are not all there.
    pub(super) fn load(&self, at: usize, into: &mut [u8]) -> bool {
        // SAFETY: a slice has room for as many bytes as it has.
        unsafe { self.load_to(at, into.as_mut_ptr(), into.len()) }
    }

    /// As [`Segment::load`], to memory that is written alone.
    ///
    /// # Safety
    /// `to` points to `len` bytes that are the caller's to write.
    pub(super) unsafe fn load_to(&self, at: usize, to: *mut u8, len: usize) -> bool {
        const WORD: usize = size_of::<u64>();
        // All places of the protocol are multiples of a word, so that reading whole ones stays within the segment.
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

    /// A copy of bytes that the other side may write meanwhile.
    pub(super) fn copy(&self, at: usize, len: usize) -> Option<Vec<u8>> {
        self.place(at, len)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        bytes.resize(len, 0);
        self.load(at, &mut bytes).then_some(bytes)
    }

    /// Gives memory back; the bytes are zero from then on. Of what only its maker writes nothing can be given back.
    pub(super) fn release(&self, at: usize, len: usize) {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // What the system keeps is used again by later calls.
        let _kept = fallocate(&self.file, how, at as u64, len as u64);
    }
}

/// How long a word is looked at before its reader sleeps: a few times what waking up takes.
pub(super) const SPIN: Duration = Duration::from_micros(50);

/// Looks at a word until it is `wanted` by `is`, for the time given; what it is then.
pub(super) fn spin(word: &AtomicU32, time: Duration, is: impl Fn(u32) -> bool) -> Option<u32> {
    let started = Instant::now();
    loop {
        for _ in 0..64 {
            let found = word.load(Ordering::Acquire);
            if is(found) {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        if started.elapsed() >= time {
            return None;
        }
    }
}

/// Sleeps until somebody wakes those who sleep at the word, or it is no more as it was, or time is up.
pub(super) fn sleep(word: &AtomicU32, was: u32, time: Option<Duration>) {
    let time = time.and_then(|time| futex::Timespec::try_from(time).ok());
    match futex::wait(word, futex::Flags::empty(), was, time.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // Nothing else is known to come, and looking again is always right.
        Err(_) => std::thread::yield_now(),
    }
}

/// Wakes those who sleep at the word.
pub(super) fn wake(word: &AtomicU32) {
    // Nobody there to be woken is no failure.
    let _woken = futex::wake(word, futex::Flags::empty(), 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads_and_cannot_write() {
        let made = Segment::new(Writes::Maker).unwrap();
        assert!(made.store(BULK + 3, b"hello"));
        let theirs = Segment::map(made.fd().unwrap(), Rights::Read).unwrap();
        assert_eq!(theirs.copy(BULK, 8).unwrap(), b"\0\0\0hello");
        let refused = Segment::map(made.fd().unwrap(), Rights::Write).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let shorter = ftruncate(made.file(), 0).unwrap_err();
        assert_eq!(shorter, Errno::PERM);
    }

    #[test]
    fn nothing_is_read_or_written_beyond_the_end() {
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
