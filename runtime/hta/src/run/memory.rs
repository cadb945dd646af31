//! The memories of a run, and the parts of them that instructions access.
//!
//! Instructions compute in the on-chip memory ("the chip"). Inputs, outputs, constants and the DDR memory are off the
//! chip; `Load` and `Store` copy between them and the chip.

use std::ops::Range;

use crate::bytecode::{At, Space};

use super::RunError;

/// All memories of a run.
#[derive(Debug)]
pub(super) struct Memory<'r, 'i, 'o> {
    pub(super) inputs: &'r [&'i [u8]],
    pub(super) outputs: &'r mut [&'o mut [u8]],
    /// The constants that `Load` instructions read.
    pub(super) constants: &'r [u8],
    /// The address of the first byte of `constants` in the program's constants.
    pub(super) constants_at: usize,
    /// Memory for tensors that do not fit the chip.
    pub(super) ddr: &'r mut [u8],
    pub(super) chip: &'r mut [u8],
    /// A padded copy of a convolution's input.
    pub(super) bordered: &'r mut [u8],
    /// The values of a tap in the padding.
    pub(super) padding: &'r mut [u8],
}

/// Returns `Broken` for `None`, which cannot occur for verified programs.
pub(super) fn broken<T>(part: Option<T>) -> Result<T, RunError> {
    part.ok_or(RunError::Broken)
}

/// Returns the range of the `len` bytes at `address` in this iteration of the enclosing loop.
pub(super) fn range(address: At, iteration: u32, len: usize) -> Result<Range<usize>, RunError> {
    let start = broken(address.on(iteration).and_then(|start| usize::try_from(start).ok()))?;
    Ok(start..broken(start.checked_add(len))?)
}

/// Returns the bytes from the start of the first row to the end of the last; `pitch` is the distance between rows.
pub(super) fn span(rows: usize, pitch: usize, width: usize) -> usize {
    rows.saturating_sub(1).saturating_mul(pitch).saturating_add(width)
}

impl Memory<'_, '_, '_> {
    /// Returns a part of an off-chip memory, and a writable part of the chip.
    pub(super) fn incoming(
        &mut self,
        space: Space,
        from: Range<usize>,
        to: Range<usize>,
    ) -> Result<(&[u8], &mut [u8]), RunError> {
        let position = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        let from = match space {
            Space::Input(index) => {
                self.inputs.get(position(index)).and_then(|input| input.get(from))
            }
            Space::Output(index) => {
                self.outputs.get(position(index)).and_then(|output| output.get(from))
            }
            Space::Constants => {
                let start = from.start.checked_sub(self.constants_at);
                start.and_then(|start| self.constants.get(start..)?.get(..from.len()))
            }
            Space::Ddr => self.ddr.get(from),
        };
        Ok((broken(from)?, broken(self.chip.get_mut(to))?))
    }

    /// Returns a part of the chip, and a writable part of an off-chip memory.
    pub(super) fn outgoing(
        &mut self,
        space: Space,
        from: Range<usize>,
        to: Range<usize>,
    ) -> Result<(&[u8], &mut [u8]), RunError> {
        let to = match space {
            Space::Output(index) => {
                let output =
                    usize::try_from(index).ok().and_then(|index| self.outputs.get_mut(index));
                output.and_then(|output| output.get_mut(to))
            }
            Space::Ddr => self.ddr.get_mut(to),
            Space::Input(_) | Space::Constants => None,
        };
        Ok((broken(self.chip.get(from))?, broken(to)?))
    }

    /// Returns a writable part of the chip, and the rest of it.
    pub(super) fn on_chip(
        &mut self,
        to: Range<usize>,
    ) -> Result<(Others<'_>, &mut [u8]), RunError> {
        split_at_range(self.chip, to)
    }
}

/// The on-chip memory without the part that an instruction writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others<'a> {
    before: &'a [u8],
    after: &'a [u8],
    /// The address of the first byte of `after`.
    end: usize,
}

impl<'a> Others<'a> {
    /// Returns the bytes of an address range, or `Broken` if it overlaps the written part.
    pub(super) fn get(&self, range: Range<usize>) -> Result<&'a [u8], RunError> {
        broken(match range.start.checked_sub(self.end) {
            Some(start) => self.after.get(start..).and_then(|rest| rest.get(..range.len())),
            None => self.before.get(range),
        })
    }
}

/// Splits memory into one writable part and the rest.
pub(super) fn split_at_range(
    memory: &mut [u8],
    part: Range<usize>,
) -> Result<(Others<'_>, &mut [u8]), RunError> {
    let (before, rest) = broken(memory.split_at_mut_checked(part.start))?;
    let (to, after) = broken(rest.split_at_mut_checked(part.len()))?;
    Ok((Others { before, after, end: part.end }, to))
}
