//! The memory accesses and the work of an instruction.

use crate::bytecode::{At, Instruction, Lines, Lookup, Space, Window};

/// A memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Chip,
    Elsewhere(Space),
}

/// Rows of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) memory: Memory,
    pub(super) at: At,
    pub(super) count: u64,
    pub(super) width: u64,
    /// Stride between rows, if there are several.
    pub(super) pitch: u64,
}

/// Accesses of an instruction, and its operations; `None` if those overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) reads: [Option<Rows>; 2],
    pub(super) write: Rows,
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

    /// Returns the bytes from the first to the last row.
    pub(super) fn span(&self) -> Option<u64> {
        self.pitch.checked_mul(self.count.saturating_sub(1))?.checked_add(self.width)
    }
}

fn area([down, across]: [u32; 2]) -> u64 {
    u64::from(down) * u64::from(across)
}

fn product(numbers: &[u64]) -> Option<u64> {
    numbers.iter().try_fold(1, |product: u64, &number| product.checked_mul(number))
}

/// Returns the bytes of an image.
fn image(pixels: [u32; 2], channels: u32) -> u64 {
    area(pixels).saturating_mul(u64::from(channels))
}

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
    let wide = u64::from;
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
            let (from, to) = (area(conv.window.input), area(conv.window.output));
            let depth = match instruction {
                Instruction::Conv(_) => wide(conv.channels),
                _ => 1,
            };
            Access {
                reads: [
                    Some(Rows::chip(conv.from, from, wide(conv.channels), conv.from_pitch)),
                    None,
                ],
                write: Rows::chip(conv.to, to, wide(conv.outputs), conv.to_pitch),
                operations: product(&[to, wide(conv.outputs), area(conv.window.kernel), depth]),
            }
        }
        Instruction::MaxPool(pool) => windows(pool.from, pool.to, &pool.window, pool.channels),
        Instruction::AveragePool(pool) => windows(pool.from, pool.to, &pool.window, pool.channels),
        Instruction::Add(pair) | Instruction::Mul(pair) => Access {
            reads: [
                Some(Rows::line(pair.a, wide(pair.len))),
                Some(Rows::line(pair.b, wide(pair.b_len))),
            ],
            write: Rows::line(pair.to, wide(pair.len)),
            operations: Some(wide(pair.len)),
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
            let len = wide(op.rows) * wide(op.width);
            Access {
                reads: [Some(Rows::line(op.from, len)), None],
                write: Rows::line(op.to, len),
                operations: len.checked_mul(4),
            }
        }
    })
}
