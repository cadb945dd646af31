//! Memory of a device, and parts of it.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Device;
use super::bytes::{Pages, Peers, Storage, page_bytes};
use super::cache::{Cache, Coherence};
use super::heap::Charge;
use super::lease::{Access, Lease, Leases};
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result, invalid};
use udo_graph::memory::ALIGN_BYTES;

/// What fresh memory is filled with in debug builds: no number in floating-point types, -1 in signed ones.
const POISON: u8 = 0xff;

/// What is in fresh memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Anything; in debug builds bytes of 255, which are no numbers, so that who reads them notices.
    #[default]
    Unset,
    /// Zeros.
    Zeros,
}

/// Whether memory may be given to other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It may not.
    #[default]
    Private,
    /// It may, as a file descriptor. From the first one on its bytes are copied rather than referred to.
    Exportable,
    /// It may, and who allocates it promises to be alone with it: nobody whom it is given to is at its bytes while this process has a lease
    /// of them, as a run has. So they are referred to where they lie ([`Memory::export_fd_exclusive`]).
    Exclusive,
}

/// How memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocOptions<'a> {
    /// The first byte is at a multiple of this power of two, and at one of 64 in any case.
    pub align_bytes: u64,
    /// What is in it.
    pub contents: Contents,
    /// Whether it may be given to other processes.
    pub sharing: Sharing,
    /// Whose it is in the heap's statistics. There is an entry per label, so there are few of them.
    pub owner: &'a str,
}

impl Default for AllocOptions<'_> {
    fn default() -> Self {
        let (contents, sharing) = (Contents::Unset, Sharing::Private);
        Self { align_bytes: ALIGN_BYTES as u64, contents, sharing, owner: "program" }
    }
}

/// Bytes of a device's memory. Clones and views are the same bytes, which are released with the last of them; nothing of
/// it dangles, and a run that uses it keeps it.
///
/// It is a [`MemoryView`] of all of it, as a `Vec` is a slice.
///
/// ```
/// # extern crate udo_engine as udo_runtime;
/// use udo_api::CoreKind;
/// use udo_runtime::device::{AllocOptions, Contents, Devices};
///
/// let dsp = Devices::default().get(CoreKind::Dsp, 0)?;
/// let options = AllocOptions { contents: Contents::Zeros, owner: "weights", ..AllocOptions::default() };
/// let memory = dsp.alloc_with(1000, &options)?;
/// memory.view(10..20)?.fill(1)?;
/// let mut read = [0; 4];
/// memory.read(18, &mut read)?;
/// assert_eq!(read, [1, 1, 0, 0]);
/// assert_eq!(dsp.heap_stats().owners[0].1.current_bytes, 1000);
/// # Ok::<(), udo_runtime::device::Error>(())
/// ```
#[derive(Clone)]
pub struct Memory(MemoryView);

/// Some bytes of a memory, which it keeps alive. Offsets count from its own start. Clones are the same bytes.
///
/// Reading, writing and copying go to the device's side and are complete when they return, whether device and host are
/// coherent or not. They leave the heap alone unless they are refused, which they are while somebody else has a lease that
/// is in their way.
///
/// ```
/// # extern crate udo_engine as udo_runtime;
/// use udo_api::CoreKind;
/// use udo_runtime::device::Devices;
///
/// let memory = Devices::default().get(CoreKind::Gpu, 0)?.alloc(100)?;
/// memory.fill(0)?;
/// let part = memory.view(40..60)?;
/// part.write(2, &[7])?;
/// part.copy_from(3, &memory, 42, 1)?;
/// assert_eq!(memory.view(41..45)?.read_all()?, [0, 7, 7, 0]);
/// # Ok::<(), udo_runtime::device::Error>(())
/// ```
#[derive(Clone)]
pub struct MemoryView {
    of: Arc<Inner>,
    range: ByteRange,
}

/// Fields are dropped in order: the bytes go before the books say so.
#[derive(Debug)]
struct Inner {
    id: u64,
    storage: Storage,
    leases: Leases,
    /// The host's side, where it is another one.
    cache: Option<Cache>,
    charge: Charge,
}

impl Device {
    /// `len` bytes of its memory, aligned to 64. No bytes are fine.
    ///
    /// # Errors
    /// The heap's limit or the system does not give as many.
    pub fn alloc(&self, len: u64) -> Result<Memory> {
        self.alloc_with(len, &AllocOptions::default())
    }

    /// As [`Device::alloc`], with options.
    ///
    /// # Errors
    /// As there; an alignment that is no power of two or, for shared memory, above a page; sharing that the device or the
    /// system does not do.
    pub fn alloc_with(&self, len: u64, options: &AllocOptions<'_>) -> Result<Memory> {
        let align =
            usize::try_from(options.align_bytes).ok().filter(|align| align.is_power_of_two());
        let align = align.ok_or_else(|| {
            let found = options.align_bytes;
            invalid(format!("an alignment of {found} bytes on {self}; wanted a power of two"))
        })?;
        let charge = Charge::take(self, len, options.owner)?;
        let bytes = usize::try_from(len).map_err(|_| {
            let why = format!("{len} bytes of {self} are more than an address can count");
            Error::new(ErrorCode::OutOfMemory, why)
        })?;
        let storage = match options.sharing {
            Sharing::Private => Storage::own(bytes, align)?,
            Sharing::Exportable | Sharing::Exclusive => {
                self.check_sharing(len)?;
                if align > page_bytes() {
                    let most = page_bytes();
                    return Err(invalid(format!(
                        "an alignment of {align} bytes on {self}, wanted at most {most} of memory that is shared"
                    )));
                }
                let is_promised = options.sharing == Sharing::Exclusive;
                let peers = if is_promised { Peers::Promised } else { Peers::None };
                Storage::shared(Pages::anonymous(bytes)?, 0, bytes, peers)
            }
        };
        let memory = Memory::new(storage, charge)?;
        if cfg!(debug_assertions) && options.contents == Contents::Unset {
            memory.fill(POISON)?;
        }
        Ok(memory)
    }

    /// Whether `len` bytes of its memory may be shared.
    pub(super) fn check_sharing(&self, len: u64) -> Result<()> {
        if !self.capabilities().can_share {
            let why = format!("{self} does not share its memory; copy through the host");
            return Err(Error::new(ErrorCode::Unsupported, why));
        }
        if len == 0 {
            return Err(invalid(format!("0 bytes of {self} to be shared, wanted at least 1")));
        }
        Ok(())
    }
}

impl Memory {
    /// Memory of these bytes.
    pub(super) fn new(storage: Storage, charge: Charge) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let device = charge.device().clone();
        let cache = match device.coherence() {
            Coherence::Coherent => None,
            Coherence::NonCoherent { .. } => Some(Cache::new(storage.len(), device.next_seed())?),
        };
        let len = u64::try_from(storage.len()).unwrap_or(u64::MAX);
        let range = ByteRange::new(0, len)
            .ok_or_else(|| Error::new(ErrorCode::Internal, "a memory ends before it starts"))?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let of = Arc::new(Inner { id, storage, leases: Leases::new(), cache, charge });
        let memory = Self(MemoryView { of, range });
        if let Some(cache) = memory.cache() {
            cache.invalidate(&memory.lease(Access::Read)?, memory.range)?;
        }
        Ok(memory)
    }

    /// All bytes, as a view.
    pub fn all(&self) -> MemoryView {
        self.0.clone()
    }
}

impl Deref for Memory {
    type Target = MemoryView;

    fn deref(&self) -> &MemoryView {
        &self.0
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl MemoryView {
    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.range.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Which bytes of the memory they are.
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// The whole memory that they are of.
    pub fn memory(&self) -> Memory {
        let all = ByteRange::new(0, self.memory_len()).unwrap_or(self.range);
        Memory(Self { of: Arc::clone(&self.of), range: all })
    }

    /// The number of the memory; no other one of the process has it.
    pub fn memory_id(&self) -> u64 {
        self.of.id
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        self.of.charge.device()
    }

    /// The label that it was allocated under; nothing if it was imported.
    pub fn owner(&self) -> Option<&str> {
        self.of.charge.owner()
    }

    /// Who else may be at the bytes.
    pub fn peers(&self) -> Peers {
        self.of.storage.peers()
    }

    /// Whether only leases lead to the bytes. Else other processes may write them at any time, so kernels get a copy.
    pub fn is_exclusive(&self) -> bool {
        self.of.storage.is_exclusive()
    }

    /// The largest power of two that the first byte's address is a multiple of.
    pub fn align_bytes(&self) -> u64 {
        let address = self.of.storage.as_ptr().wrapping_add(self.start()).addr();
        1 << address.trailing_zeros().min(63)
    }

    /// A part of these bytes.
    ///
    /// # Errors
    /// It goes beyond them, or ends before it starts.
    pub fn view(&self, range: Range<u64>) -> Result<Self> {
        match self.range.part(&range) {
            Some(part) => Ok(self.part(part)),
            None => Err(self.beyond(&range)),
        }
    }

    /// Copies the bytes from `offset` on to the host.
    ///
    /// # Errors
    /// They go beyond the view's, and nothing is copied; or somebody is writing them.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.of_len(offset, into.len())?.lease(Access::Read)?.read(0, into)
    }

    /// Copies all bytes to the host.
    ///
    /// # Errors
    /// Somebody is writing them, or the host has no room for them.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let lease = self.lease(Access::Read)?;
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(self.len_here()).is_err() {
            let why = format!("the host has no room for {self}; read it in parts");
            return Err(Error::new(ErrorCode::OutOfMemory, why));
        }
        bytes.resize(self.len_here(), 0);
        lease.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies bytes of the host to those from `offset` on.
    ///
    /// # Errors
    /// They go beyond the view's, and nothing is written; or somebody has a lease of them.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let mut lease = self.of_len(offset, from.len())?.lease(Access::Write)?;
        lease.write(0, from)?;
        self.show(&lease, lease.view().range)
    }

    /// Sets all bytes.
    ///
    /// # Errors
    /// Somebody has a lease of some.
    pub fn fill(&self, value: u8) -> Result<()> {
        let mut lease = self.lease(Access::Write)?;
        lease.fill(value)?;
        self.show(&lease, lease.view().range)
    }

    /// Copies `len` bytes of `source` from `source_offset` on to those from `offset` on, on this device or from another
    /// one. Where both are of one memory and overlap, what was there before is copied, as `memmove` does.
    ///
    /// # Errors
    /// They go beyond either view, and nothing is written; or somebody has a lease that is in the way.
    pub fn copy_from(
        &self,
        offset: u64,
        source: &Self,
        source_offset: u64,
        len: u64,
    ) -> Result<()> {
        let to = self.view(span(offset, len))?;
        let from = source.view(span(source_offset, len))?;
        if to.of.id == from.of.id && to.range.meets(from.range) {
            let mut lease = to.part(to.range.hull(from.range)).lease(Access::Write)?;
            let first = lease.view().range.start();
            let (at, from) = (to.range.start() - first, from.range.start() - first);
            lease.copy_within(at, from, to.len_here())?;
            return self.show(&lease, to.range);
        }
        let source = from.lease(Access::Read)?;
        let mut lease = to.lease(Access::Write)?;
        lease.copy_from(&source)?;
        self.show(&lease, lease.view().range)
    }

    /// The view of `part` of the memory.
    pub(super) fn part(&self, part: ByteRange) -> Self {
        Self { of: Arc::clone(&self.of), range: part }
    }

    /// The view of `len` bytes from `offset` on.
    fn of_len(&self, offset: u64, len: usize) -> Result<Self> {
        self.view(span(offset, u64::try_from(len).unwrap_or(u64::MAX)))
    }

    fn beyond(&self, range: &Range<u64>) -> Error {
        let Range { start, end } = range;
        invalid(format!("bytes {start}..{end} of {self}; wanted a range within 0..{}", self.len()))
    }

    /// Has the host's side see what was written on the device's by other means than a mapping.
    fn show(&self, lease: &Lease, range: ByteRange) -> Result<()> {
        self.cache().map_or(Ok(()), |cache| cache.invalidate(lease, range))
    }

    pub(super) fn cache(&self) -> Option<&Cache> {
        self.of.cache.as_ref()
    }

    pub(super) fn storage(&self) -> &Storage {
        &self.of.storage
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.of.leases
    }

    pub(super) fn memory_len(&self) -> u64 {
        u64::try_from(self.of.storage.len()).unwrap_or(u64::MAX)
    }

    /// Where it starts. It lies within bytes that there are, so an address counts it.
    pub(super) fn start(&self) -> usize {
        usize::try_from(self.range.start()).unwrap_or(usize::MAX)
    }

    /// How many bytes it has, as an address counts them.
    pub(super) fn len_here(&self) -> usize {
        usize::try_from(self.range.len()).unwrap_or(usize::MAX)
    }

    /// Where `len` bytes from `at` on lie in the memory.
    pub(super) fn place(&self, at: u64, len: usize) -> Result<usize> {
        Ok(self.of_len(at, len)?.start())
    }
}

/// The range of `len` bytes from `offset` on; as far as can be counted, which is beyond any memory.
fn span(offset: u64, len: u64) -> Range<u64> {
    offset..offset.saturating_add(len)
}

/// Two views are equal if they are of the same bytes.
impl PartialEq for MemoryView {
    fn eq(&self, other: &Self) -> bool {
        (self.of.id, self.range) == (other.of.id, other.range)
    }
}

impl Eq for MemoryView {}

impl fmt::Display for MemoryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, device) = (self.of.id, self.device().id());
        write!(f, "memory {id} on {device}")?;
        if self.len() == self.memory_len() {
            write!(f, " of {} bytes", self.len())
        } else {
            write!(f, " (its bytes {} of {})", self.range, self.memory_len())
        }
    }
}

impl fmt::Debug for MemoryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
