//! Memory of other processes, by file descriptor, and memory for them.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use super::Device;
use super::alloc::memory_of;
use super::bytes::{Pages, Peers, Storage, page_bytes};
use super::heap::Charge;
use super::lease_table::Access;
use super::memory::Memory;
use udo_graph::error::{Error, ErrorCode, Result, invalid};

/// Which part of a file becomes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Bytes of the file, or of its part that may be used, from its start on.
    pub size_bytes: u64,
    /// Where the memory begins: a multiple of the system's page.
    pub offset_bytes: u64,
    /// Whether nobody else uses the file's bytes meanwhile, so that kernels may use them where they lie.
    pub is_exclusive: bool,
}

impl Device {
    pub(super) fn import(&self, fd: BorrowedFd<'_>, options: ImportOptions) -> Result<Memory> {
        let ImportOptions { size_bytes, offset_bytes, is_exclusive } = options;
        let peers = if is_exclusive { Peers::Promised } else { Peers::Any };
        self.check_sharing(size_bytes)?;
        let page = u64::try_from(page_bytes()).unwrap_or(u64::MAX);
        if !offset_bytes.is_multiple_of(page) {
            return Err(invalid(format!(
                "an import to {self} begins at {offset_bytes}, expected a multiple of {page}, the system's page"
            )));
        }
        let len = size_bytes.checked_sub(offset_bytes).filter(|&len| len > 0).ok_or_else(|| {
            invalid(format!(
                "an import to {self} has {size_bytes} bytes and begins at {offset_bytes}; expected an offset below the size"
            ))
        })?;
        let bytes = usize::try_from(len).map_err(|_| {
            invalid(format!("an import to {self} of {len} bytes is more than an address can count"))
        })?;
        let pages = Pages::of_file(fd, offset_bytes, bytes)?;
        memory_of(Storage::shared(pages, 0, bytes, peers), Charge::imported(self, len))
    }
}

/// Imports memory of other processes.
pub trait ImportMemory {
    /// Imports the bytes of a file, from the offset up to the size, as memory of this device. The file stays where it is, its descriptor
    /// stays the caller's, and the bytes do not count towards the limit of the device's heap.
    ///
    /// Unless the import is exclusive, whoever has the file may write it at any time, so the bytes are copied and never referred to. If it
    /// is exclusive, kernels get them where they lie. A file that is cut short while it is mapped ends the process when the missing
    /// bytes are next read; what [`Memory::export_fd`] gave cannot be cut.
    ///
    /// ```
    /// use std::os::fd::AsRawFd;
    /// use udo_api::CoreKind;
    /// use udo_engine::device::{
    ///     AllocMemory, AllocOptions, Devices, ImportMemory, ImportOptions, Sharing,
    /// };
    ///
    /// let dsp = Devices::default().get(CoreKind::Dsp, 0)?;
    /// let options = AllocOptions { sharing: Sharing::Exportable, ..AllocOptions::default() };
    /// let ours = dsp.alloc_with(4096, &options)?;
    /// let fd = ours.export_fd()?;
    /// let options = ImportOptions { size_bytes: 4096, offset_bytes: 0, is_exclusive: false };
    /// // SAFETY: the descriptor is open.
    /// let theirs = unsafe { dsp.import_fd(fd.as_raw_fd(), options) }?;
    /// drop(fd);
    /// theirs.write(100, b"hello")?;
    /// let mut read = [0; 5];
    /// ours.read(100, &mut read)?;
    /// assert_eq!(&read, b"hello");
    /// # Ok::<(), udo_engine::device::Error>(())
    /// ```
    ///
    /// # Safety
    /// A number of 0 and more is that of a descriptor that is open until this returns. If the import is exclusive, as long as a lease of the
    /// memory's bytes is held, as by a run or a mapping, nobody writes the file's bytes by other means or reads what is written through it:
    /// no other process, and no other import or mapping in this one. Nobody cuts the file short.
    ///
    /// # Errors
    /// A negative number; no bytes, or more than the file has; an offset beyond them or within a page; a file that cannot be mapped
    /// for reading and writing; a device that does not share memory.
    // SAFETY: the promises are what `borrow_raw` asks for, and those who read and write by leases alone.
    unsafe fn import_fd(&self, fd: RawFd, options: ImportOptions) -> Result<Memory>;
}

impl ImportMemory for Device {
    // SAFETY: the promises are what `borrow_raw` asks for, and those who read and write by leases alone.
    unsafe fn import_fd(&self, fd: RawFd, options: ImportOptions) -> Result<Memory> {
        if fd < 0 {
            return Err(invalid(format!(
                "an import to {self} is of file descriptor {fd}; expected one that is open"
            )));
        }
        // SAFETY: the caller promises that it is open, and it is not -1.
        self.import(unsafe { BorrowedFd::borrow_raw(fd) }, options)
    }
}

impl Memory {
    /// A descriptor of the file that the memory lies in, for another process: from its start on, or where it was imported
    /// from. The memory is there for as long as any process has it or its descriptor. From the first one on others may write its bytes at
    /// any time, so they are copied and never referred to.
    ///
    /// # Errors
    /// The memory was not allocated or imported to be shared, or by a promise that nobody else is at it; it is the first one, and somebody
    /// is at bytes of the memory; or the system gives no descriptor.
    pub fn export_fd(&self) -> Result<OwnedFd> {
        let pages = self.shared_pages()?;
        match self.peers() {
            Peers::Any => pages.file(),
            // Nobody refers to bytes while this has the lease of all.
            Peers::None => match self.lease(Access::Write) {
                Ok(_all) => {
                    let file = pages.file()?;
                    self.storage().open_to_others();
                    Ok(file)
                }
                Err(_) if self.peers() == Peers::Any => pages.file(),
                Err(conflict) => Err(conflict.into()),
            },
            Peers::Promised => Err(Error::new(
                ErrorCode::Unsupported,
                format!(
                    "{self:?} is this process's alone by promise; share it without one to export it to anybody"
                ),
            )),
        }
    }

    /// As [`Memory::export_fd`], of memory that was allocated or imported by the promise that nobody else is at it, which whoever gets the
    /// descriptor keeps as well: its bytes are referred to as before. Of other memory it is the same.
    ///
    /// # Safety
    /// If the memory is of such a promise: as long as a lease of its bytes is held, by a run or a mapping, nobody writes them by the
    /// descriptor, or reads what is written by the lease. Nobody cuts the file short.
    ///
    /// # Errors
    /// As there.
    // SAFETY: the promise is passed on to who reads and writes by leases alone.
    pub unsafe fn export_fd_exclusive(&self) -> Result<OwnedFd> {
        match self.peers() {
            Peers::Promised => self.shared_pages()?.file(),
            Peers::None | Peers::Any => self.export_fd(),
        }
    }

    /// The pages that others may have.
    fn shared_pages(&self) -> Result<&Pages> {
        let why = || format!("{self:?} is this process's own; allocate it as exportable");
        self.storage().pages().ok_or_else(|| Error::new(ErrorCode::Unsupported, why()))
    }
}
