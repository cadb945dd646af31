//! How fields become 32-bit words, and words fields.

use std::slice::Iter;

/// Why words are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There are fewer than its fields take.
    Short,
    /// No instruction has this code.
    Code(u32),
    /// No space has this number.
    Space(u32),
}

/// Words that are read one after the other.
#[derive(Debug)]
pub(crate) struct Reader<'a>(Iter<'a, [u8; 4]>);

impl<'a> Reader<'a> {
    pub(crate) fn new(words: &'a [[u8; 4]]) -> Self {
        Self(words.iter())
    }

    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn next(&mut self) -> Result<u32, Fault> {
        self.0.next().map(|word| u32::from_le_bytes(*word)).ok_or(Fault::Short)
    }
}

/// What becomes words.
pub(crate) trait Words: Sized {
    fn put(&self, to: &mut Vec<u32>);
    fn take(from: &mut Reader<'_>) -> Result<Self, Fault>;
    /// Calls a function with each place of memory.
    fn places(&mut self, _: &mut dyn FnMut(&mut At)) {}
}

/// Where something begins, and how much further with each trip of the loop that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The first byte.
    pub address: u32,
    /// Bytes from a trip to the next; 0 outside of loops.
    pub step: i32,
}

/// Memory that is not on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// What a run is given, by number; read alone.
    Input(u32),
    /// What a run gives, by number.
    Output(u32),
    /// Those of the section; read alone.
    Constants,
    /// Memory of the run for what the chip has no room for.
    Ddr,
}

impl At {
    /// A place that is the same on every trip.
    pub fn fixed(address: u32) -> Self {
        Self { address, step: 0 }
    }

    /// The first byte on a trip; none below 0.
    pub(crate) fn on(self, trip: u32) -> Option<u64> {
        let moved = i64::from(self.step) * i64::from(trip) + i64::from(self.address);
        u64::try_from(moved).ok()
    }
}

impl Words for u32 {
    fn put(&self, to: &mut Vec<u32>) {
        to.push(*self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Fault> {
        from.next()
    }
}

impl Words for f32 {
    fn put(&self, to: &mut Vec<u32>) {
        to.push(self.to_bits());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Fault> {
        from.next().map(Self::from_bits)
    }
}

impl Words for [u32; 2] {
    fn put(&self, to: &mut Vec<u32>) {
        to.extend(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok([from.next()?, from.next()?])
    }
}

impl Words for At {
    fn put(&self, to: &mut Vec<u32>) {
        to.extend([self.address, self.step.cast_unsigned()]);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { address: from.next()?, step: from.next()?.cast_signed() })
    }

    fn places(&mut self, each: &mut dyn FnMut(&mut At)) {
        each(self);
    }
}

/// The number of a space is in the lowest byte, and that of an input or output above it.
impl Words for Space {
    fn put(&self, to: &mut Vec<u32>) {
        to.push(match self {
            Self::Input(index) => index << 8,
            Self::Output(index) => 1 | index << 8,
            Self::Constants => 2,
            Self::Ddr => 3,
        });
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let word = from.next()?;
        match (word & 0xff, word >> 8) {
            (0, index) => Ok(Self::Input(index)),
            (1, index) => Ok(Self::Output(index)),
            (2, 0) => Ok(Self::Constants),
            (3, 0) => Ok(Self::Ddr),
            _ => Err(Fault::Space(word)),
        }
    }
}
