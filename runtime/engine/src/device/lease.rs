//! Leases: the right to read or write a range of a memory, held by handles, mappings and runs, which take theirs together.

use std::fmt;

use super::DeviceId;
use super::cache::DeviceSide;
use super::lease_table::{Access, Clash, Entry, LeaseTable, Slot, give_back_all, take_all};
use super::memory::MemoryView;
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result, invalid};

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
    /// The cause of the conflict.
    pub cause: Cause,
}

/// The cause of a conflict between leases.
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
    pub(crate) const fn code(&self) -> ErrorCode {
        match self.cause {
            Cause::Alias { .. } => ErrorCode::InvalidArgument,
            Cause::Held { .. } | Cause::Full | Cause::Taken => ErrorCode::Busy,
        }
    }

    fn new(view: &MemoryView, access: Access, binding: usize, cause: Cause) -> Self {
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
                    LeaseTable::MOST
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
/// use udo_api::CoreKind;
/// use udo_engine::device::Access;
/// use udo_engine::device::Error;
/// use udo_engine::device::{Devices, ErrorCode};
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
        match self.leases().take(self.range(), access) {
            Ok(slot) => Ok(Lease { view: self.clone(), access, slot }),
            Err(clash) => Err(Conflict::new(self, access, 0, cause(clash))),
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
            self.view.leases().give_back(self.slot);
        }
    }
}

impl Entry for Lease {
    type Refusal = Conflict;

    fn request(&self) -> (&LeaseTable, ByteRange, Access) {
        (self.view.leases(), self.view.range(), self.access)
    }

    fn slot(&mut self) -> &mut Slot {
        &mut self.slot
    }

    fn refusal(&self, at: usize, clash: Clash) -> Conflict {
        Conflict::new(&self.view, self.access, at, cause(clash))
    }
}

/// The device's side of the emulated cache.
impl DeviceSide for Lease {
    fn range(&self) -> ByteRange {
        self.view.range()
    }

    fn is_writable(&self) -> bool {
        self.access == Access::Write
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Self::read(self, at, into)
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<()> {
        Self::write(self, at, from)
    }
}

impl Lease {
    /// The bytes that it is of.
    pub(crate) fn view(&self) -> &MemoryView {
        &self.view
    }

    /// Returns the permitted access.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The first byte. The bytes are there for as long as the lease is, may be read through it, and written if it is a
    /// writer's; those that other processes may write have no references.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.view.storage().as_ptr().wrapping_add(self.view.start())
    }

    /// The bytes; none where others may write them at any time (`MemoryView::is_exclusive`): those are copied.
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
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let from = self.view.place(at, into.len())?;
        // SAFETY: while the lease is held nobody else writes its bytes; its holder does so through `&mut self` alone.
        unsafe { self.view.storage().read(from, into) };
        Ok(())
    }

    /// Writes bytes from `at` on.
    ///
    /// # Errors
    /// They go beyond the lease's, or it is a reader's.
    pub(crate) fn write(&mut self, at: u64, from: &[u8]) -> Result<()> {
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
    pub(crate) fn fill(&mut self, value: u8) -> Result<()> {
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

/// The memories that a run reads and writes. The set takes the leases of all of them or of none.
///
/// Making and binding uses the heap; taking the leases and giving them back does not. So a run that is prepared once is
/// submitted without. A range that is read and written in place is one binding, to write.
///
/// ```
/// use udo_api::CoreKind;
/// use udo_engine::device::{Access, LeaseSet};
/// use udo_engine::device::Devices;
///
/// let cpu = Devices::default().get(CoreKind::Cpu, 0)?;
/// let (x, y) = (cpu.alloc(16)?, cpu.alloc(16)?);
/// let mut run = LeaseSet::new([(x.all(), Access::Read), (y.all(), Access::Write)]);
/// run.take()?;
/// assert!(x.write(0, &[1]).is_err(), "a run in flight keeps its inputs as they are");
/// run.give_back();
/// x.write(0, &[1])?;
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct LeaseSet {
    /// Their slots are none while the set does not have its leases.
    leases: Vec<Lease>,
    /// Their numbers by memory, so that threads take tables in one order.
    order: Vec<usize>,
    is_held: bool,
}

impl LeaseSet {
    /// A set that is bound to these bytes, and has no leases yet.
    pub fn new(bindings: impl IntoIterator<Item = (MemoryView, Access)>) -> Self {
        let bound =
            bindings.into_iter().map(|(view, access)| Lease { view, access, slot: Slot::NONE });
        let leases: Vec<_> = bound.collect();
        let mut set = Self { order: (0..leases.len()).collect(), leases, is_held: false };
        set.sort();
        set
    }

    fn sort(&mut self) {
        let Self { leases, order, .. } = self;
        order.sort_unstable_by_key(|&at| (leases.get(at).map(|lease| lease.view.memory_id()), at));
    }

    /// Binds other bytes, to do the same with them. No heap.
    ///
    /// # Errors
    /// Fails if the set has no such binding or holds its leases.
    pub fn bind(&mut self, binding: usize, view: MemoryView) -> Result<()> {
        let count = self.leases.len();
        if self.is_held {
            let why = format!(
                "binding {binding} cannot change while the run has its leases; end it first"
            );
            return Err(Error::new(ErrorCode::InvalidState, why));
        }
        let Some(lease) = self.leases.get_mut(binding) else {
            return Err(invalid(format!("there is no binding {binding}: the run has {count}")));
        };
        lease.view = view;
        self.sort();
        Ok(())
    }

    /// Takes all leases, or none of them. No heap.
    ///
    /// # Errors
    /// Somebody has some of the bytes; two bindings are in each other's way; the set has its leases already.
    pub fn take(&mut self) -> std::result::Result<(), Conflict> {
        if self.is_held {
            return match self.leases.first() {
                Some(first) => Err(Conflict::new(&first.view, first.access, 0, Cause::Taken)),
                None => Ok(()),
            };
        }
        match take_all(&mut self.leases, &self.order) {
            Ok(()) => {
                self.is_held = true;
                Ok(())
            }
            Err(conflict) => Err(self.with_alias(conflict)),
        }
    }

    /// Releases all leases. Does not use the heap unless this drops the last handle of a memory.
    pub fn give_back(&mut self) {
        if self.is_held {
            self.is_held = false;
            give_back_all(&mut self.leases, &self.order);
        }
    }

    /// A lease, to read through; none while the set does not have its leases.
    pub(crate) fn get(&self, binding: usize) -> Option<&Lease> {
        self.leases.get(binding).filter(|_| self.is_held)
    }

    /// The bytes of a binding that is to be written; none while the set does not have its leases, where it is to be read, and
    /// where others may be at the bytes.
    pub fn bytes_mut(&mut self, binding: usize) -> Option<&mut [u8]> {
        self.leases.get_mut(binding).filter(|_| self.is_held)?.bytes_mut()
    }

    /// Writes bytes of a binding from `at` on.
    ///
    /// # Errors
    /// The set does not have its leases, or they go beyond the binding's, or that is to be read.
    pub(crate) fn write(&mut self, binding: usize, at: u64, from: &[u8]) -> Result<()> {
        match self.leases.get_mut(binding).filter(|_| self.is_held) {
            Some(lease) => lease.write(at, from),
            None => Err(Error::new(
                ErrorCode::InvalidState,
                format!("binding {binding} has no lease; take the set's leases first"),
            )),
        }
    }

    /// Replaces the cause of a conflict by the conflicting binding of the same set, if there is one.
    fn with_alias(&self, conflict: Conflict) -> Conflict {
        let is_alias = |other: &Lease| {
            other.view.memory_id() == conflict.memory
                && other.view.range().meets(conflict.range)
                && (other.access, conflict.access) != (Access::Read, Access::Read)
        };
        let mut others = self.leases.iter().enumerate();
        match others.find(|&(at, other)| at != conflict.binding && is_alias(other)) {
            Some((binding, _)) => Conflict { cause: Cause::Alias { binding }, ..conflict },
            None => conflict,
        }
    }
}
