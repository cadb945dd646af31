//! Imports memory of other processes by file descriptor, and exports memory to them.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use super::Device;
use super::alloc::memory_of;
use super::bytes::{Pages, Peers, Storage, page_bytes};
use super::heap::Charge;
use super::lease_table::Access;
use super::memory::Memory;
use udo_graph::error::{Error, ErrorCode, Result, invalid};

/// The part of a file that becomes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The usable bytes of the file, counted from its start.
    pub size_bytes: u64,
    /// The offset in the file where the memory begins: a multiple of the system's page size.
    pub offset_bytes: u64,
    /// Whether nothing else uses the file's bytes, so that kernels may use them in place.
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
    /// Unless the import is exclusive, any process with the file may write it at any time, so kernels receive copies of the bytes. If
    /// it is exclusive, kernels use them in place. If a mapped file is truncated, the process ends when it next reads the missing
    /// bytes; files from [`Memory::export_fd`] cannot be truncated.
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
    /// If `fd` is not negative, it is a descriptor that is open until this returns. If the import is exclusive, then while a lease of
    /// the memory's bytes exists, such as that of a run or a mapping, nothing else writes the file's bytes or reads what is written
    /// through the lease: no other process, and no other import or mapping in this one. The file is not truncated.
    ///
    /// # Errors
    /// Fails for a negative descriptor; for no bytes, or more than the file has; for an offset beyond them or within a page; for a
    /// file that cannot be mapped for reading and writing; and for a device that does not share memory.
    // SAFETY: the promises cover the requirements of `borrow_raw`, and of accesses under leases.
    unsafe fn import_fd(&self, fd: RawFd, options: ImportOptions) -> Result<Memory>;
}

impl ImportMemory for Device {
    // SAFETY: the promises cover the requirements of `borrow_raw`, and of accesses under leases.
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
    /// Returns a descriptor of the memory's file, for another process. An imported memory keeps its offset in the file. The file
    /// exists as long as any process has it mapped or open. From the first export other processes may write the bytes at any time,
    /// so kernels receive copies of them.
    ///
    /// # Errors
    /// Fails if the memory is not shared, or is exclusive; if this is the first export and a lease of the memory exists; or if the
    /// system does not provide a descriptor.
    pub fn export_fd(&self) -> Result<OwnedFd> {
        let pages = self.shared_pages()?;
        match self.peers() {
            Peers::Any => pages.file(),
            // A lease of all bytes ensures that no reference to them exists.
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

    /// Returns a descriptor as [`Memory::export_fd`] does, also for exclusive memory. The receiver must keep the promise of
    /// exclusive memory too, so kernels still use the bytes in place. Other memory is exported as by [`Memory::export_fd`].
    ///
    /// # Safety
    /// If the memory is exclusive: while a run or a mapping has a lease of its bytes, nothing writes them through the descriptor or
    /// reads what is written through the lease. The file is not truncated.
    ///
    /// # Errors
    /// Fails as [`Memory::export_fd`] does, except for exclusive memory.
    // SAFETY: the promise covers the requirements of accesses under leases.
    pub unsafe fn export_fd_exclusive(&self) -> Result<OwnedFd> {
        match self.peers() {
            Peers::Promised => self.shared_pages()?.file(),
            Peers::None | Peers::Any => self.export_fd(),
        }
    }

    /// Returns the pages that may be shared.
    fn shared_pages(&self) -> Result<&Pages> {
        let why = || format!("{self:?} is this process's own; allocate it as exportable");
        self.storage().pages().ok_or_else(|| Error::new(ErrorCode::Unsupported, why()))
    }
}
