//! Reading, writing and copying bytes of a memory, each under a lease for as long as it takes.

use super::lease::Lease;
use super::lease_table::Access;
use super::memory::{MemoryView, span};
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result};

impl MemoryView {
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
        self.show(&lease, lease.view().range())
    }

    /// Sets all bytes.
    ///
    /// # Errors
    /// Somebody has a lease of some.
    pub fn fill(&self, value: u8) -> Result<()> {
        let mut lease = self.lease(Access::Write)?;
        lease.fill(value)?;
        self.show(&lease, lease.view().range())
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
        if to.memory_id() == from.memory_id() && to.range().meets(from.range()) {
            let mut lease = to.part(to.range().hull(from.range())).lease(Access::Write)?;
            let first = lease.view().range().start();
            let (at, from) = (to.range().start() - first, from.range().start() - first);
            lease.copy_within(at, from, to.len_here())?;
            return self.show(&lease, to.range());
        }
        let source = from.lease(Access::Read)?;
        let mut lease = to.lease(Access::Write)?;
        lease.copy_from(&source)?;
        self.show(&lease, lease.view().range())
    }

    /// Has the host's side see what was written on the device's by other means than a mapping.
    fn show(&self, lease: &Lease, range: ByteRange) -> Result<()> {
        self.cache().map_or(Ok(()), |cache| cache.invalidate(lease, range))
    }
}
