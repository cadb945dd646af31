//! Reads, writes and copies bytes of a memory. Each call holds a lease for its duration.

use super::lease::Lease;
use super::lease_table::Access;
use super::memory::{MemoryView, span};
use super::range::ByteRange;
use udo_graph::error::{Error, ErrorCode, Result};

impl MemoryView {
    /// Copies bytes from `offset` to the host.
    ///
    /// # Errors
    /// Fails without copying if they exceed the view, or a lease for writing them exists.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.of_len(offset, into.len())?.lease(Access::Read)?.read(0, into)
    }

    /// Copies all bytes to the host.
    ///
    /// # Errors
    /// Fails if a lease for writing them exists, or the host lacks memory.
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

    /// Copies bytes of the host to `offset`.
    ///
    /// # Errors
    /// Fails without writing if they exceed the view, or a lease of them exists.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let mut lease = self.of_len(offset, from.len())?.lease(Access::Write)?;
        lease.write(0, from)?;
        self.refresh_host(&lease, lease.view().range())
    }

    /// Sets all bytes.
    ///
    /// # Errors
    /// Fails if a lease of some of them exists.
    pub fn fill(&self, value: u8) -> Result<()> {
        let mut lease = self.lease(Access::Write)?;
        lease.fill(value)?;
        self.refresh_host(&lease, lease.view().range())
    }

    /// Copies `len` bytes from `source_offset` of `source`, which may be on another device, to `offset`. The ranges may overlap, as
    /// for `memmove`.
    ///
    /// # Errors
    /// Fails without writing if they exceed either view, or a conflicting lease exists.
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
            return self.refresh_host(&lease, to.range());
        }
        let source = from.lease(Access::Read)?;
        let mut lease = to.lease(Access::Write)?;
        lease.copy_from(&source)?;
        self.refresh_host(&lease, lease.view().range())
    }

    /// Updates the host's emulated cache after a write to the device's side that did not go through a mapping.
    fn refresh_host(&self, lease: &Lease, range: ByteRange) -> Result<()> {
        self.cache().map_or(Ok(()), |cache| cache.invalidate(lease, range))
    }
}
