//! The emulated cache of the host, where what it writes is not what a device sees until somebody says so.
//!
//! The host's view and the device's memory are two buffers. A flush copies lines that the host changed to
//! the device's, an invalidation replaces lines of the host's by the device's, all in whole lines of 64 bytes. So a call
//! that a program forgets shows, to the line, as it would on hardware and does not on most emulators.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::range::{ByteRange, LINE_BYTES};
use udo_graph::error::Result;
use udo_graph::memory::Buffer;

/// Whether what the host writes to mapped memory is what the device reads, and the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// It is, at once: mappings are the memory itself.
    #[default]
    Coherent,
    /// It is after a flush, and after an invalidation: mappings are copies in an emulated cache. This is for tests: it
    /// takes three times the memory on the host.
    NonCoherent {
        /// With a seed, the cache also lets go of lines by itself, as real ones do: at random, the same with the same seed.
        seed: Option<u64>,
    },
}

/// The device's side of some bytes of a memory, for as long as nobody else writes them.
pub(super) trait DeviceSide {
    /// Which bytes of the memory they are.
    fn range(&self) -> ByteRange;
    /// Whether they may be written.
    fn is_writable(&self) -> bool;
    /// Copies those from `at` on.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
    /// Writes those from `at` on.
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

/// The numbers of xorshift64* (Vigna, 2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers from this seed on.
    pub fn new(seed: u64) -> Self {
        // Steps of the golden ratio, so that seeds next to each other are far apart; 0 would stay 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Whether something happens that does once in four times.
    pub fn happens(&mut self) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 62 == 0
    }
}

/// Where bytes of a memory lie in a buffer of it.
fn place(range: ByteRange) -> std::ops::Range<usize> {
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    at(range.start())..at(range.end())
}

/// The lines of a range that begins with one.
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

    /// Takes bytes as they are on the device.
    fn take(&mut self, device: &impl DeviceSide, range: ByteRange) -> Result<()> {
        let at = range.start() - device.range().start();
        for side in [&mut self.host, &mut self.clean] {
            device.read(at, side.bytes_mut().get_mut(place(range)).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Cache {
    /// A cache of a memory of `len` bytes, which has them not yet.
    pub(super) fn new(len: usize, seed: Option<u64>) -> Result<Self> {
        let (host, clean) = (Buffer::zeroed(len)?, Buffer::zeroed(len)?);
        Ok(Self(Mutex::new(Lines { host, clean, random: seed.map(Random::new) })))
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what the host sees.
    pub(super) fn load(&self, range: ByteRange, into: &mut [u8]) {
        let lines = self.lock();
        let bytes = lines.host.bytes().get(place(range)).unwrap_or_default();
        for (to, from) in into.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// Has the host see `from`.
    pub(super) fn store(&self, range: ByteRange, from: &[u8]) {
        let mut lines = self.lock();
        let bytes = lines.host.bytes_mut().get_mut(place(range)).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
    }

    /// Writes those of these lines to the device that are dirty. `device` has them.
    pub(super) fn flush(&self, device: &mut impl DeviceSide, range: ByteRange) -> Result<()> {
        let mut state = self.lock();
        lines(range).try_for_each(|line| state.flush(device, line))
    }

    /// Has the host see these bytes as they are on the device; what it changed in them is lost. `device` has them. They need
    /// not be lines: copies to the device are seen to the byte.
    pub(super) fn invalidate(&self, device: &impl DeviceSide, range: ByteRange) -> Result<()> {
        self.lock().take(device, range)
    }

    /// Lets go of some of the lines of `device`, if the cache does so by itself. Dirty ones stay where it may not be written.
    pub(super) fn evict(&self, device: &mut impl DeviceSide) -> Result<()> {
        let mut state = self.lock();
        for line in lines(device.range()) {
            if state.random.as_mut().is_none_or(|random| !random.happens()) {
                continue;
            }
            match (state.is_dirty(line), device.is_writable()) {
                (true, false) => {}
                (true, true) => state.flush(device, line)?,
                (false, _) => state.take(device, line)?,
            }
        }
        Ok(())
    }
}
