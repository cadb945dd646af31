//! Memory mapped to the host.

use std::ops::Range;

use super::cache::Cache;
use super::lease::Lease;
use super::lease_table::Access;
use super::memory::MemoryView;
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result, invalid};
use udo_graph::memory::Buffer;

/// The party that maintains the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaintainedBy {
    /// The mapping: it invalidates when it begins, and flushes when it ends.
    Mapping,
    /// The program, call by call.
    Program,
}

/// A mapping and its lease.
#[derive(Debug)]
struct Mapping {
    /// Of the mapped bytes; where there is a cache, of all lines that they touch.
    lease: Lease,
    /// Of the first mapped byte in the lease.
    at: usize,
    len: usize,
    /// The host's view of the leased bytes; `None` if it is the memory itself.
    copy: Option<Buffer>,
    cache_maintenance: MaintainedBy,
}

/// Mapped memory, to be read. It holds a lease as a run does that reads the memory.
///
/// ```
/// use udo_api::CoreKind;
/// use udo_engine::device::{Devices, ErrorCode};
///
/// let memory = Devices::default().get(CoreKind::Dsp, 0)?.alloc(8)?;
/// memory.fill(5)?;
/// let map = memory.map(2..4)?;
/// assert_eq!(map.bytes()?, [5, 5]);
/// assert_eq!(memory.write(3, &[6]).unwrap_err().code(), ErrorCode::Busy);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadMap(Mapping);

/// Mapped memory, to be read and written. It holds a lease as a run does that writes the memory.
///
/// ```
/// use udo_api::{Core, CoreKind};
/// use udo_engine::device::{Coherence, DeviceSpec, Devices};
///
/// let coherence = Coherence::NonCoherent { seed: None };
/// let devices = Devices::new(&[DeviceSpec { coherence, ..DeviceSpec::new(Core::DSP_V68) }])?;
/// let memory = devices.get(CoreKind::Dsp, 0)?.alloc(128)?;
/// memory.fill(0)?;
/// let mut map = memory.map_mut_unsynced(0..128)?;
/// map.bytes_mut()?[60..68].fill(1);
/// map.flush(60..64)?;
/// drop(map);
/// let device = memory.read_all()?;
/// assert_eq!((device[60], device[64]), (1, 0), "one line was flushed, the other was forgotten");
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Debug)]
pub struct WriteMap(Mapping);

/// Mappings. Of a device that is not coherent they take leases of whole lines. Those that are called `unsynced` do nothing by
/// themselves: their holder invalidates before reading what the device wrote, and flushes what the device shall read.
impl MemoryView {
    /// Maps bytes to be read, as they are on the device now.
    ///
    /// # Errors
    /// The range goes beyond the view, the device's memory cannot be mapped, or somebody writes the bytes.
    pub fn map(&self, range: Range<u64>) -> Result<ReadMap> {
        self.mapping(range, Access::Read, MaintainedBy::Mapping).map(ReadMap)
    }

    /// Maps bytes to be read and written. What was written is on the device once the mapping is dropped.
    ///
    /// # Errors
    /// As for [`MemoryView::map`], or somebody reads the bytes.
    pub fn map_mut(&self, range: Range<u64>) -> Result<WriteMap> {
        self.mapping(range, Access::Write, MaintainedBy::Mapping).map(WriteMap)
    }

    /// Maps bytes to be read, as the host saw them last.
    ///
    /// # Errors
    /// As for [`MemoryView::map`].
    pub fn map_unsynced(&self, range: Range<u64>) -> Result<ReadMap> {
        self.mapping(range, Access::Read, MaintainedBy::Program).map(ReadMap)
    }

    /// Maps bytes to be read and written. The device sees what is flushed.
    ///
    /// # Errors
    /// As for [`MemoryView::map_mut`].
    pub fn map_mut_unsynced(&self, range: Range<u64>) -> Result<WriteMap> {
        self.mapping(range, Access::Write, MaintainedBy::Program).map(WriteMap)
    }

    /// Has the device see what the host wrote to these bytes through mappings that have ended; in whole lines.
    ///
    /// # Errors
    /// The range goes beyond the view, or somebody has a lease of the lines, as a mapping has that flushes itself.
    pub fn flush(&self, range: Range<u64>) -> Result<()> {
        let view = self.view(range)?;
        let Some(cache) = self.cache() else { return Ok(()) };
        let lines = view.range().lines(self.memory_len());
        let mut lease = self.part(lines).lease(Access::Write)?;
        cache.flush(&mut lease, lines)?;
        cache.evict(&mut lease)
    }

    /// Has mappings of the host see these bytes as they are on the device from now on; in whole lines. What the host wrote to
    /// them and did not flush is lost.
    ///
    /// # Errors
    /// The range goes beyond the view, or somebody writes the lines.
    pub fn invalidate(&self, range: Range<u64>) -> Result<()> {
        let view = self.view(range)?;
        let Some(cache) = self.cache() else { return Ok(()) };
        let lines = view.range().lines(self.memory_len());
        cache.invalidate(&self.part(lines).lease(Access::Read)?, lines)
    }

    fn mapping(
        &self,
        range: Range<u64>,
        access: Access,
        cache_maintenance: MaintainedBy,
    ) -> Result<Mapping> {
        let view = self.view(range)?;
        if !self.device().capabilities().can_map {
            let why = format!(
                "{self} cannot be mapped: its device takes copies alone; read and write it"
            );
            return Err(Error::new(ErrorCode::Unsupported, why));
        }
        let leased = match self.cache() {
            Some(_) => view.range().lines(self.memory_len()),
            None => view.range(),
        };
        let mut lease = self.part(leased).lease(access)?;
        let at = view.start() - lease.view().start();
        let mut copy = None;
        if let Some(cache) = self.cache() {
            let mut seen = Buffer::zeroed(lease.view().len_here())?;
            if cache_maintenance == MaintainedBy::Mapping {
                cache.invalidate(&lease, leased)?;
            }
            cache.evict(&mut lease)?;
            cache.load(leased, seen.bytes_mut());
            copy = Some(seen);
        }
        Ok(Mapping { lease, at, len: view.len_here(), copy, cache_maintenance })
    }
}

impl Mapping {
    /// Bytes of the memory, of a range that counts from the first mapped one.
    fn part(&self, range: &Range<u64>) -> Result<ByteRange> {
        let start = self.lease.view().range().start();
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let first = start.saturating_add(count(self.at));
        let mapped = ByteRange::new(first, first.saturating_add(count(self.len)));
        mapped.and_then(|mapped| mapped.part(range)).ok_or_else(|| {
            let Range { start, end } = range;
            invalid(format!(
                "bytes {start}..{end} of a mapping of {} bytes of {}; expected a range within it",
                self.len,
                self.lease.view()
            ))
        })
    }

    fn as_ptr(&self) -> *mut u8 {
        let first = match &self.copy {
            Some(copy) => copy.as_ptr(),
            None => self.lease.as_ptr(),
        };
        first.wrapping_add(self.at)
    }

    fn bytes(&self) -> Result<&[u8]> {
        let bytes = match &self.copy {
            Some(copy) => Some(copy.bytes()),
            None => self.lease.bytes(),
        };
        let mapped = bytes.and_then(|bytes| bytes.get(self.at..self.at + self.len));
        mapped.ok_or_else(|| self.no_reference())
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        if self.copy.is_none() && !self.lease.view().is_exclusive() {
            return Err(self.no_reference());
        }
        let bytes = match &mut self.copy {
            Some(copy) => Some(copy.bytes_mut()),
            None => self.lease.bytes_mut(),
        };
        let mapped = bytes.and_then(|bytes| bytes.get_mut(self.at..self.at + self.len));
        mapped
            .ok_or_else(|| Error::new(ErrorCode::Internal, "a mapping to write is of fewer bytes"))
    }

    fn no_reference(&self) -> Error {
        let why = format!(
            "other processes may write {} at any time, so there are no references to its bytes; read and write it, or use \
             the mapping's address",
            self.lease.view()
        );
        Error::new(ErrorCode::Unsupported, why)
    }

    /// Does something with what the host sees of the memory, if that is not the memory itself.
    fn with_cache(&mut self, act: impl FnOnce(&Cache, &mut Lease) -> Result<()>) -> Result<()> {
        let view = self.lease.view().clone();
        let (Some(cache), Some(copy)) = (view.cache(), &mut self.copy) else { return Ok(()) };
        if self.lease.access() == Access::Write {
            cache.store(view.range(), copy.bytes());
        }
        let outcome = act(cache, &mut self.lease);
        cache.load(view.range(), copy.bytes_mut());
        outcome
    }

    fn flush(&mut self, range: &Range<u64>) -> Result<()> {
        let part = self.part(range)?;
        self.with_cache(|cache, lease| {
            cache.flush(lease, part.lines(lease.view().memory_len()))?;
            cache.evict(lease)
        })
    }

    fn invalidate(&mut self, range: &Range<u64>) -> Result<()> {
        let part = self.part(range)?;
        self.with_cache(|cache, lease| {
            cache.invalidate(lease, part.lines(lease.view().memory_len()))?;
            cache.evict(lease)
        })
    }
}

impl ReadMap {
    /// The bytes.
    ///
    /// # Errors
    /// Other processes may write them.
    pub fn bytes(&self) -> Result<&[u8]> {
        self.0.bytes()
    }

    /// The address of the first byte, for as long as the mapping is there.
    pub fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// Has the host see these bytes, counted from the mapping's first, as they are on the device; in whole lines.
    ///
    /// # Errors
    /// The range goes beyond the mapping.
    pub fn invalidate(&mut self, range: Range<u64>) -> Result<()> {
        self.0.invalidate(&range)
    }
}

impl WriteMap {
    /// The bytes.
    ///
    /// # Errors
    /// Other processes may write them.
    pub fn bytes(&self) -> Result<&[u8]> {
        self.0.bytes()
    }

    /// The bytes, to be changed.
    ///
    /// # Errors
    /// Other processes may be at them.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.0.bytes_mut()
    }

    /// The address of the first byte, for as long as the mapping is there.
    pub fn as_ptr(&mut self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Has the device see these bytes, counted from the mapping's first; in whole lines.
    ///
    /// # Errors
    /// The range goes beyond the mapping.
    pub fn flush(&mut self, range: Range<u64>) -> Result<()> {
        self.0.flush(&range)
    }

    /// Has the host see these bytes, counted from the mapping's first, as they are on the device; in whole lines. What was
    /// written to them and not flushed is lost.
    ///
    /// # Errors
    /// The range goes beyond the mapping.
    pub fn invalidate(&mut self, range: Range<u64>) -> Result<()> {
        self.0.invalidate(&range)
    }
}

impl Drop for WriteMap {
    fn drop(&mut self) {
        let cache_maintenance = self.0.cache_maintenance;
        // The lease is a writer's and has the lines, so nothing of this is refused.
        let _never = self.0.with_cache(|cache, lease| match cache_maintenance {
            MaintainedBy::Mapping => cache.flush(lease, lease.view().range()),
            MaintainedBy::Program => cache.evict(lease),
        });
    }
}
