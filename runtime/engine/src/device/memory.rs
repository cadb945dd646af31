//! Memory of a device, and parts of it.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Device;
use super::bytes::{Peers, Storage};
use super::cache::Cache;
use super::heap::Charge;
use super::lease_table::LeaseTable;
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result, invalid};

/// Bytes of a device's memory. Clones and views are the same bytes, which are released with the last of them; nothing of
/// it dangles, and a run that uses it keeps it.
///
/// It is a [`MemoryView`] of all of it, as a `Vec` is a slice.
///
/// ```
/// use udo_api::CoreKind;
/// use udo_engine::device::{AllocMemory, AllocOptions, Contents, Devices};
///
/// let dsp = Devices::default().get(CoreKind::Dsp, 0)?;
/// let options = AllocOptions { contents: Contents::Zeros, owner: "weights", ..AllocOptions::default() };
/// let memory = dsp.alloc_with(1000, &options)?;
/// memory.view(10..20)?.fill(1)?;
/// let mut read = [0; 4];
/// memory.read(18, &mut read)?;
/// assert_eq!(read, [1, 1, 0, 0]);
/// assert_eq!(dsp.heap_stats().owners[0].1.current_bytes, 1000);
/// # Ok::<(), udo_engine::device::Error>(())
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
/// use udo_api::CoreKind;
/// use udo_engine::device::Devices;
///
/// let memory = Devices::default().get(CoreKind::Gpu, 0)?.alloc(100)?;
/// memory.fill(0)?;
/// let part = memory.view(40..60)?;
/// part.write(2, &[7])?;
/// part.copy_from(3, &memory, 42, 1)?;
/// assert_eq!(memory.view(41..45)?.read_all()?, [0, 7, 7, 0]);
/// # Ok::<(), udo_engine::device::Error>(())
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
    leases: LeaseTable,
    /// The host's side, where it is another one.
    cache: Option<Cache>,
    charge: Charge,
}

impl Memory {
    /// Memory of these bytes, and the host's side of them where it is another one.
    pub(super) fn new(storage: Storage, cache: Option<Cache>, charge: Charge) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let len = u64::try_from(storage.len()).unwrap_or(u64::MAX);
        let range = ByteRange::new(0, len)
            .ok_or_else(|| Error::new(ErrorCode::Internal, "a memory ends before it starts"))?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let of = Arc::new(Inner { id, storage, leases: LeaseTable::new(), cache, charge });
        Ok(Self(MemoryView { of, range }))
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
    pub(crate) fn range(&self) -> ByteRange {
        self.range
    }

    /// The whole memory that they are of.
    pub fn memory(&self) -> Memory {
        let all = ByteRange::new(0, self.memory_len()).unwrap_or(self.range);
        Memory(Self { of: Arc::clone(&self.of), range: all })
    }

    /// The number of the memory; no other one of the process has it.
    pub(crate) fn memory_id(&self) -> u64 {
        self.of.id
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        self.of.charge.device()
    }

    /// Who else may be at the bytes.
    pub(crate) fn peers(&self) -> Peers {
        self.of.storage.peers()
    }

    /// Whether only leases lead to the bytes. Else other processes may write them at any time, so kernels get a copy.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.of.storage.is_exclusive()
    }

    /// The largest power of two that the first byte's address is a multiple of.
    pub(crate) fn align_bytes(&self) -> u64 {
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

    /// The view of `part` of the memory.
    pub(super) fn part(&self, part: ByteRange) -> Self {
        Self { of: Arc::clone(&self.of), range: part }
    }

    /// The view of `len` bytes from `offset` on.
    pub(super) fn of_len(&self, offset: u64, len: usize) -> Result<Self> {
        self.view(span(offset, u64::try_from(len).unwrap_or(u64::MAX)))
    }

    fn beyond(&self, range: &Range<u64>) -> Error {
        let Range { start, end } = range;
        invalid(format!(
            "bytes {start}..{end} of {self}; expected a range within 0..{}",
            self.len()
        ))
    }

    pub(super) fn cache(&self) -> Option<&Cache> {
        self.of.cache.as_ref()
    }

    pub(super) fn storage(&self) -> &Storage {
        &self.of.storage
    }

    pub(super) fn leases(&self) -> &LeaseTable {
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
pub(super) fn span(offset: u64, len: u64) -> Range<u64> {
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
