//! Pages that processes share on Linux: a mapped file without a name (`memfd_create(2)`).

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use udo_graph::error::{Error, ErrorCode, Result, invalid};

/// Mapped pages of a file. Dropping this unmaps them.
#[derive(Debug)]
pub(in crate::device) struct Pages {
    at: NonNull<u8>,
    len: usize,
    /// The file, for export to other processes.
    file: File,
}

// SAFETY: it is an address and a file; accesses to the pages follow leases, or are atomic words.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

/// Returns the size of a page.
pub(in crate::device) fn page_bytes() -> usize {
    rustix::param::page_size()
}

fn refused(what: &str, errno: Errno) -> Error {
    let code = match errno {
        Errno::NOMEM | Errno::NOSPC | Errno::FBIG | Errno::MFILE | Errno::NFILE => {
            ErrorCode::OutOfMemory
        }
        Errno::ACCESS | Errno::PERM | Errno::BADF | Errno::INVAL => ErrorCode::InvalidArgument,
        _ => ErrorCode::Unsupported,
    };
    Error::new(code, format!("{what}: {errno}"))
}

impl Pages {
    /// Creates `len` zeroed bytes, at least one, in a new file of fixed size.
    pub(in crate::device) fn anonymous(len: usize) -> Result<Self> {
        let message = |problem: &str| format!("shared memory of {len} bytes {problem}");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("udo", flags)
            .map_err(|errno| refused(&message("gets no file from the system"), errno))?;
        let size = u64::try_from(len).unwrap_or(u64::MAX);
        ftruncate(&file, size).map_err(|errno| refused(&message("has no room"), errno))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)
            .map_err(|errno| refused(&message("cannot be kept at its length"), errno))?;
        Self::map(File::from(file), 0, len)
    }

    /// Maps `len` bytes, at least one, of another process's file from `offset`, a multiple of the page size.
    pub(in crate::device) fn of_file(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self> {
        let file = fd.try_clone_to_owned().map(File::from);
        let file = file.map_err(|error| {
            invalid(format!(
                "an imported file descriptor cannot be kept: {error}; give one that is open"
            ))
        })?;
        let file_len = file.metadata().map_or(0, |metadata| metadata.len());
        let size = u64::try_from(len).unwrap_or(u64::MAX);
        let end = offset.checked_add(size);
        if end.is_none_or(|end| end > file_len) {
            return Err(invalid(format!(
                "an imported file has {file_len} bytes, expected {size} from {offset} on; give it the size first, or import less"
            )));
        }
        Self::map(file, offset, len)
    }

    fn map(file: File, offset: u64, len: usize) -> Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address that the system chooses there is nothing yet that a mapping could replace.
        let at = unsafe { mmap(null_mut(), len, rights, MapFlags::SHARED, &file, offset) };
        let at =
            at.map_err(|errno| refused("a file cannot be mapped to be read and written", errno))?;
        let at = NonNull::new(at.cast::<u8>());
        let at =
            at.ok_or_else(|| Error::new(ErrorCode::Internal, "a mapping lies at address 0"))?;
        Ok(Self { at, len, file })
    }

    pub(in crate::device) fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Returns a new descriptor of the file, for another process.
    pub(in crate::device) fn file(&self) -> Result<OwnedFd> {
        let fd = self.file.as_fd().try_clone_to_owned();
        fd.map_err(|error| {
            Error::new(
                ErrorCode::OutOfMemory,
                format!("the system gives no file descriptor: {error}"),
            )
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` mapped these `len` bytes, and no reference to them is left.
        let _refused = unsafe { munmap(self.at.as_ptr().cast::<c_void>(), self.len) };
    }
}
