//! The memory accesses and the work of an instruction, for the verifier.
//!
//! Each access is a set of equally long rows of bytes at equal distances. Contiguous rows are merged into one, since
//! the verifier visits every row of every access.

use crate::bytecode::{At, Instruction, Lines, Lookup, Space, Window};

/// The memory of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// On-chip memory.
    Chip,
    /// A memory off the chip.
    Elsewhere(Space),
}

/// Rows of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) memory: Memory,
    /// Address of the first row.
    pub(super) at: At,
    /// Number of rows.
    pub(super) count: u64,
    /// Bytes per row.
    pub(super) width: u64,
    /// Bytes from the start of a row to the start of the next.
    pub(super) pitch: u64,
}

/// The accesses of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) reads: [Option<Rows>; 2],
    pub(super) write: Rows,
    /// Multiplications and moved bytes; `None` if the count overflows.
    pub(super) operations: Option<u64>,
}

impl Rows {
    fn chip(at: At, count: u64, width: u64, pitch: u32) -> Self {
        Self { memory: Memory::Chip, at, count, width, pitch: u64::from(pitch) }.joined()
    }

    fn line(at: At, len: u64) -> Self {
        Self { memory: Memory::Chip, at, count: 1, width: len, pitch: len }
    }

    /// Merges contiguous rows into one.
    fn joined(self) -> Self {
        match self.width.checked_mul(self.count) {
            Some(width) if self.pitch == self.width => {
                Self { count: 1, width, pitch: width, ..self }
            }
            _ => self,
        }
    }

    /// Returns the bytes from the start of the first row to the end of the last, or `None` on overflow.
    pub(super) fn span(&self) -> Option<u64> {
        self.pitch.checked_mul(self.count.saturating_sub(1))?.checked_add(self.width)
    }
}

fn area([height, width]: [u32; 2]) -> u64 {
    u64::from(height) * u64::from(width)
}

fn product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1, |product: u64, &factor| product.checked_mul(factor))
}

/// Returns the bytes of an image.
fn image(pixels: [u32; 2], channels: u32) -> u64 {
    area(pixels).saturating_mul(u64::from(channels))
}

/// Returns the accesses of pooling.
fn windows(from: At, to: At, window: &Window, channels: u32) -> Access {
    let (input, output) = (image(window.input, channels), image(window.output, channels));
    Access {
        reads: [Some(Rows::line(from, input)), None],
        write: Rows::line(to, output),
        operations: product(&[output, area(window.kernel)]),
    }
}

/// Returns the accesses of copying rows from one memory to another.
fn copied(lines: &Lines, from: Memory, to: Memory) -> Access {
    let (count, width) = (u64::from(lines.rows), u64::from(lines.width));
    let rows = |memory, at, pitch| Rows { memory, ..Rows::chip(at, count, width, pitch) };
    Access {
        reads: [Some(rows(from, lines.from, lines.from_pitch)), None],
        write: rows(to, lines.to, lines.to_pitch),
        operations: count.checked_mul(width),
    }
}

/// Returns the accesses of an instruction; `None` for `Loop` and `End`.
pub(super) fn access(instruction: &Instruction) -> Option<Access> {
    let u64_from = u64::from;
    Some(match instruction {
        Instruction::Loop(_) | Instruction::End(_) => return None,
        Instruction::Load(transfer) => {
            copied(&transfer.lines, Memory::Elsewhere(transfer.space), Memory::Chip)
        }
        Instruction::Store(transfer) => {
            copied(&transfer.lines, Memory::Chip, Memory::Elsewhere(transfer.space))
        }
        Instruction::Copy(lines) | Instruction::Lookup(Lookup { lines, .. }) => {
            copied(lines, Memory::Chip, Memory::Chip)
        }
        Instruction::Conv(conv) | Instruction::Depthwise(conv) => {
            let (from_pixels, to_pixels) = (area(conv.window.input), area(conv.window.output));
            let depth = match instruction {
                Instruction::Conv(_) => u64_from(conv.channels),
                _ => 1,
            };
            Access {
                reads: [
                    Some(Rows::chip(
                        conv.from,
                        from_pixels,
                        u64_from(conv.channels),
                        conv.from_pitch,
                    )),
                    None,
                ],
                write: Rows::chip(conv.to, to_pixels, u64_from(conv.outputs), conv.to_pitch),
                operations: product(&[
                    to_pixels,
                    u64_from(conv.outputs),
                    area(conv.window.kernel),
                    depth,
                ]),
            }
        }
        Instruction::MaxPool(pool) => windows(pool.from, pool.to, &pool.window, pool.channels),
        Instruction::AveragePool(pool) => windows(pool.from, pool.to, &pool.window, pool.channels),
        Instruction::Add(pair) | Instruction::Mul(pair) => Access {
            reads: [
                Some(Rows::line(pair.a, u64_from(pair.len))),
                Some(Rows::line(pair.b, u64_from(pair.b_len))),
            ],
            write: Rows::line(pair.to, u64_from(pair.len)),
            operations: Some(u64_from(pair.len)),
        },
        Instruction::Resize(op) => {
            let input = image(op.input, op.channels);
            let output = input.saturating_mul(area(op.times));
            Access {
                reads: [Some(Rows::line(op.from, input)), None],
                write: Rows::line(op.to, output),
                operations: Some(output),
            }
        }
        Instruction::Softmax(op) => {
            let len = u64_from(op.rows) * u64_from(op.width);
            Access {
                reads: [Some(Rows::line(op.from, len)), None],
                write: Rows::line(op.to, len),
                // A maximum, a power, a sum and a division per value.
                operations: len.checked_mul(4),
            }
        }
    })
}
