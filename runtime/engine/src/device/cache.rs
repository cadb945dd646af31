//! The emulated cache of the host, for devices that are not coherent with it.
//!
//! The host's view and the device's memory are two buffers. A flush copies lines that the host changed to the device's buffer. An
//! invalidation replaces lines of the host's buffer by the device's. Both copy whole lines of 64 bytes. A missing call in a program
//! therefore has the same effect as on hardware, to the line.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::range::{ByteRange, LINE_BYTES};
use udo_graph::error::Result;
use udo_graph::memory::Buffer;

/// Whether host and device see each other's writes to mapped memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// They do, at once: mappings are the memory itself.
    #[default]
    Coherent,
    /// The device sees the host's writes after a flush, and the host the device's after an invalidation: mappings are copies in an
    /// emulated cache. This is for tests: it takes three times the memory on the host.
    NonCoherent {
        /// With a seed, the cache also evicts random lines, as real caches do. The same seed gives the same lines.
        seed: Option<u64>,
    },
}

/// Access to the device's side of some bytes of a memory, during which nothing else writes them.
pub(super) trait DeviceSide {
    /// Returns the range of these bytes in the memory.
    fn range(&self) -> ByteRange;
    /// Returns whether they may be written.
    fn is_writable(&self) -> bool;
    /// Copies bytes from offset `at` of the range.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
    /// Writes bytes at offset `at` of the range.
    fn write(&mut self, at: u64, from: &[u8]) -> Result<()>;
}

/// The emulated cache of the host for a memory.
#[derive(Debug)]
pub(super) struct Cache(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    /// The host's view of the memory.
    host: Buffer,
    /// The host's view when each line was last equal to the device's. A line that differs from it is dirty; a line rewritten
    /// with the same bytes counts as clean.
    clean: Buffer,
    random: Option<Random>,
}

/// The random number generator xorshift64* (Vigna, 2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        // Multiplying by 2^64 divided by the golden ratio gives neighbouring seeds unlike states. A state of 0 would never change.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns true with probability 1/4.
    pub fn happens(&mut self) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 62 == 0
    }
}

/// Returns the indices of a range in a buffer.
fn place(range: ByteRange) -> std::ops::Range<usize> {
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    at(range.start())..at(range.end())
}

/// Returns the lines of a range, which begins with a line.
fn lines(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let line = usize::try_from(LINE_BYTES).unwrap_or(1);
    (range.start()..range.end()).step_by(line).filter_map(move |start| {
        ByteRange::new(start, start.saturating_add(LINE_BYTES).min(range.end()))
    })
}

impl Lines {
    fn is_dirty(&self, line: ByteRange) -> bool {
        self.host.bytes().get(place(line)) != self.clean.bytes().get(place(line))
    }

    /// Writes a line to the device if it is dirty.
    fn flush(&mut self, device: &mut impl DeviceSide, line: ByteRange) -> Result<()> {
        if !self.is_dirty(line) {
            return Ok(());
        }
        let bytes = self.host.bytes().get(place(line)).unwrap_or_default();
        device.write(line.start() - device.range().start(), bytes)?;
        if let Some(clean) = self.clean.bytes_mut().get_mut(place(line)) {
            clean.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Copies bytes from the device, which makes them clean.
    fn load_from(&mut self, device: &impl DeviceSide, range: ByteRange) -> Result<()> {
        let at = range.start() - device.range().start();
        for side in [&mut self.host, &mut self.clean] {
            device.read(at, side.bytes_mut().get_mut(place(range)).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Cache {
    /// Creates the cache of a memory of `len` bytes. It does not have the memory's content yet.
    pub(super) fn new(len: usize, seed: Option<u64>) -> Result<Self> {
        let (host, clean) = (Buffer::zeroed(len)?, Buffer::zeroed(len)?);
        Ok(Self(Mutex::new(Lines { host, clean, random: seed.map(Random::new) })))
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies bytes of the host's view.
    pub(super) fn load(&self, range: ByteRange, into: &mut [u8]) {
        let lines = self.lock();
        let bytes = lines.host.bytes().get(place(range)).unwrap_or_default();
        for (to, from) in into.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// Writes bytes to the host's view.
    pub(super) fn store(&self, range: ByteRange, from: &[u8]) {
        let mut lines = self.lock();
        let bytes = lines.host.bytes_mut().get_mut(place(range)).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
    }

    /// Writes the dirty lines of `range` to the device. `device` contains the range.
    pub(super) fn flush(&self, device: &mut impl DeviceSide, range: ByteRange) -> Result<()> {
        let mut state = self.lock();
        lines(range).try_for_each(|line| state.flush(device, line))
    }

    /// Replaces the host's view of `range` by the device's bytes, and discards changes by the host. `device` contains the range, which
    /// need not consist of whole lines: copies to the device update exactly their bytes.
    pub(super) fn invalidate(&self, device: &impl DeviceSide, range: ByteRange) -> Result<()> {
        self.lock().load_from(device, range)
    }

    /// Evicts random lines of `device`, if the cache has a seed. Dirty lines stay if `device` is read-only.
    pub(super) fn evict(&self, device: &mut impl DeviceSide) -> Result<()> {
        let mut state = self.lock();
        for line in lines(device.range()) {
            if state.random.as_mut().is_none_or(|random| !random.happens()) {
                continue;
            }
            match (state.is_dirty(line), device.is_writable()) {
                (true, false) => {}
                (true, true) => state.flush(device, line)?,
                (false, _) => state.load_from(device, line)?,
            }
        }
        Ok(())
    }
}
