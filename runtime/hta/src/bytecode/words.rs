//! The encoding of instruction fields as 32-bit words, and their decoder.

use std::slice::Iter;

/// An error of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fewer words than the fields need.
    Short,
    /// An unknown instruction code.
    Code(u32),
    /// An unknown memory space.
    Space(u32),
}

/// Reads words in order.
#[derive(Debug)]
pub(crate) struct Reader<'a>(Iter<'a, [u8; 4]>);

impl<'a> Reader<'a> {
    pub(crate) fn new(words: &'a [[u8; 4]]) -> Self {
        Self(words.iter())
    }

    /// Returns the number of words that are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn next(&mut self) -> Result<u32, Fault> {
        self.0.next().map(|word| u32::from_le_bytes(*word)).ok_or(Fault::Short)
    }
}

/// A field or group of fields that is encoded as words.
pub(crate) trait Words: Sized {
    /// Appends the words.
    fn put(&self, to: &mut Vec<u32>);
    /// Reads the words.
    fn take(from: &mut Reader<'_>) -> Result<Self, Fault>;
    /// Calls a function with each address, which may change it.
    fn places(&mut self, _: &mut dyn FnMut(&mut At)) {}
}

/// An address, and its increment per iteration of the enclosing loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The first byte, in the first iteration.
    pub address: u32,
    /// Bytes from an iteration's address to the next one's; 0 outside of loops.
    pub step: i32,
}

/// Memory off the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// An input of the run, by number; read-only.
    Input(u32),
    /// An output of the run, by number.
    Output(u32),
    /// The constants of the bytecode; read-only.
    Constants,
    /// Memory for tensors that do not fit the chip.
    Ddr,
}

impl At {
    /// Returns an address that is the same in every iteration.
    pub fn fixed(address: u32) -> Self {
        Self { address, step: 0 }
    }

    /// Returns the address in an iteration, or `None` if it is negative.
    pub(crate) fn on(self, iteration: u32) -> Option<u64> {
        let address = i64::from(self.step) * i64::from(iteration) + i64::from(self.address);
        u64::try_from(address).ok()
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

/// The kind of space is in the lowest byte, the number of an input or output above it.
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
