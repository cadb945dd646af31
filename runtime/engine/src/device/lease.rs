//! Leases: the right to read or write a range of a memory, held by handles, mappings and runs.

#[cfg(all(test, loom))]
mod models;
mod set;
#[cfg_attr(all(test, loom), path = "lease/sync_loom.rs")]
#[cfg_attr(not(all(test, loom)), path = "lease/sync_std.rs")]
mod sync;
mod table;

use std::fmt;

pub use set::LeaseSet;
use table::{Clash, Entry, Slot, Table};

use super::DeviceId;
use super::memory::MemoryView;
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result};

/// What a lease lets its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read; others may read as well.
    Read,
    /// To read and write; nobody else is at the bytes.
    Write,
}

/// The leases of a memory.
#[derive(Debug)]
pub(super) struct Leases(Table);

impl Leases {
    pub(super) fn new() -> Self {
        Self(Table::new())
    }
}

/// Why a lease is not to be had. It is small and `Copy`, so that being refused costs no heap either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which of the leases that were asked for together, from 0 on.
    pub binding: usize,
    /// The device.
    pub device: DeviceId,
    /// The number of the memory.
    pub memory: u64,
    /// The bytes wanted.
    pub range: ByteRange,
    /// To do what.
    pub access: Access,
    /// What is in the way.
    pub cause: Cause,
}

/// What is in the way of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody has a lease of some of the bytes.
    Held {
        /// Of these bytes.
        range: ByteRange,
        /// To do what.
        access: Access,
    },
    /// The leases asked for together are in each other's way: this one is.
    Alias {
        /// Which of them.
        binding: usize,
    },
    /// The memory has as many leases as it may have.
    Full,
    /// The set has its leases already.
    Taken,
}

impl Conflict {
    /// The code of the error that it becomes.
    pub const fn code(&self) -> ErrorCode {
        match self.cause {
            Cause::Alias { .. } => ErrorCode::InvalidArgument,
            Cause::Held { .. } | Cause::Full | Cause::Taken => ErrorCode::Busy,
        }
    }

    fn of(view: &MemoryView, access: Access, binding: usize, cause: Cause) -> Self {
        let (device, memory, range) = (view.device().id(), view.memory_id(), view.range());
        Self { binding, device, memory, range, access, cause }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding, device, memory, range, access, cause } = self;
        let verb = match access {
            Access::Read => "read",
            Access::Write => "written",
        };
        write!(f, "bytes {range} of memory {memory} on {device} cannot be {verb} now: ")?;
        match cause {
            Cause::Held { range, access: Access::Read } => {
                write!(
                    f,
                    "bytes {range} are being read; end the run or mapping that reads them first"
                )
            }
            Cause::Held { range, access: Access::Write } => {
                write!(
                    f,
                    "bytes {range} are being written; end the run or mapping that writes them first"
                )
            }
            Cause::Alias { binding: other } => {
                write!(
                    f,
                    "binding {binding} shares bytes with binding {other} of the same run; give one of them others"
                )
            }
            Cause::Full => {
                write!(
                    f,
                    "there are {} leases of it, the most there may be; end some first",
                    sync::SLOTS
                )
            }
            Cause::Taken => f.write_str("the set has its leases already; end its run first"),
        }
    }
}

impl std::error::Error for Conflict {}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self::new(conflict.code(), conflict.to_string())
    }
}

/// The right to read or write some bytes of a memory, which it keeps alive. It ends when dropped, on whatever thread.
///
/// Through it one is at the device's bytes as a kernel is: what a mapping wrote and did not flush is not there yet.
///
/// ```
/// # extern crate udo_engine as udo_runtime;
/// use udo_api::CoreKind;
/// use udo_runtime::device::{Access, Devices, Error, ErrorCode};
///
/// let memory = Devices::default().get(CoreKind::Cpu, 0)?.alloc(64)?;
/// let mut lease = memory.lease(Access::Write)?;
/// lease.bytes_mut().expect("nobody else may write it").fill(7);
/// let error = Error::from(memory.view(0..4)?.lease(Access::Read).unwrap_err());
/// assert_eq!(error.code(), ErrorCode::Busy);
/// drop(lease);
/// assert_eq!(memory.view(0..4)?.lease(Access::Read)?.bytes(), Some(&[7; 4][..]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Lease {
    view: MemoryView,
    access: Access,
    slot: Slot,
}

impl MemoryView {
    /// The right to read or write these bytes. Neither taking nor dropping it uses the heap.
    ///
    /// # Errors
    /// Somebody has some of the bytes, or the memory has as many leases as it may have.
    pub fn lease(&self, access: Access) -> std::result::Result<Lease, Conflict> {
        match self.leases().0.take(self.range(), access) {
            Ok(slot) => Ok(Lease { view: self.clone(), access, slot }),
            Err(clash) => Err(Conflict::of(self, access, 0, cause(clash))),
        }
    }
}

fn cause(clash: Clash) -> Cause {
    match clash {
        Clash::Held { range, access } => Cause::Held { range, access },
        Clash::Full => Cause::Full,
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.slot != Slot::NONE {
            self.view.leases().0.give_back(self.slot);
        }
    }
}

impl Entry for Lease {
    type Refusal = Conflict;

    fn wanted(&self) -> (&Table, ByteRange, Access) {
        (&self.view.leases().0, self.view.range(), self.access)
    }

    fn slot(&mut self) -> &mut Slot {
        &mut self.slot
    }

    fn refusal(&self, at: usize, clash: Clash) -> Conflict {
        Conflict::of(&self.view, self.access, at, cause(clash))
    }
}

impl Lease {
    /// The bytes that it is of.
    pub fn view(&self) -> &MemoryView {
        &self.view
    }

    /// What it lets its holder do.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The first byte. The bytes are there for as long as the lease is, may be read through it, and written if it is a
    /// writer's; those that other processes may write have no references.
    pub fn as_ptr(&self) -> *mut u8 {
        self.view.storage().as_ptr().wrapping_add(self.view.start())
    }

    /// The bytes; none where others may write them at any time ([`MemoryView::is_exclusive`]): those are copied.
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: while the lease is held, which is as long as the reference, nobody else writes these bytes; its holder
        // does so through `&mut self` alone.
        unsafe { self.view.storage().slice(self.view.start(), self.view.len_here()) }
    }

    /// The bytes, to be changed; none where others may be at them, or the lease is a reader's.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.access == Access::Read {
            return None;
        }
        // SAFETY: while the lease is held nobody else is at these bytes, and `self` is borrowed for as long.
        unsafe { self.view.storage().slice_mut(self.view.start(), self.view.len_here()) }
    }

    /// Copies the bytes from `at` on.
    ///
    /// # Errors
    /// They go beyond the lease's.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let from = self.view.place(at, into.len())?;
        // SAFETY: while the lease is held nobody else writes its bytes; its holder does so through `&mut self` alone.
        unsafe { self.view.storage().read(from, into) };
        Ok(())
    }

    /// Writes bytes from `at` on.
    ///
    /// # Errors
    /// They go beyond the lease's, or it is a reader's.
    pub fn write(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.check_write()?;
        let to = self.view.place(at, from.len())?;
        // SAFETY: while a writer's lease is held nobody else is at its bytes, and `self` is borrowed.
        unsafe { self.view.storage().write(to, from) };
        Ok(())
    }

    /// Sets all bytes.
    ///
    /// # Errors
    /// The lease is a reader's.
    pub fn fill(&mut self, value: u8) -> Result<()> {
        self.check_write()?;
        // SAFETY: while a writer's lease is held nobody else is at its bytes, and `self` is borrowed.
        unsafe { self.view.storage().fill(self.view.start(), self.view.len_here(), value) };
        Ok(())
    }

    /// Copies all bytes of `source`, of which there are as many.
    pub(super) fn copy_from(&mut self, source: &Self) -> Result<()> {
        self.check_write()?;
        let (to, from) = (self.view.start(), source.view.start());
        let len = self.view.len_here().min(source.view.len_here());
        // SAFETY: two leases are held: nobody else writes what is read, and nobody else is at what is written.
        unsafe { self.view.storage().copy(to, source.view.storage(), from, len) };
        Ok(())
    }

    /// Copies `len` bytes within the lease, which has as many from both places on.
    pub(super) fn copy_within(&mut self, to: u64, from: u64, len: usize) -> Result<()> {
        self.check_write()?;
        let (to, from) = (self.view.place(to, len)?, self.view.place(from, len)?);
        let storage = self.view.storage();
        // SAFETY: while a writer's lease is held nobody else is at its bytes, and `self` is borrowed.
        unsafe { storage.copy(to, storage, from, len) };
        Ok(())
    }

    fn check_write(&self) -> Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("a lease to read {} cannot write; take one to write", self.view),
            )),
        }
    }
}
