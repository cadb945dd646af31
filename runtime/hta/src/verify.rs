//! Verifies bytecode before it runs: every access of every iteration is inside its memory, reads see only bytes that
//! were written before, and work and memory are within limits.
//!
//! `rules` checks the fields of each instruction by itself. `access` lists the memory that an instruction reads and
//! writes. [`Run`] then executes the program on address ranges instead of values.

mod access;
mod rules;
mod written;

use std::collections::BTreeMap;

use access::{Access, Memory, Rows, access};
pub(crate) use rules::slice;
use udo_simd::{conv_u8, depthwise};
use written::Written;

use crate::bytecode::{DecodeError, Image, Instruction, Space};
use crate::soc::Soc;

/// Limits on the resources of a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions per run, counting each loop iteration.
    pub instructions: u64,
    /// Memory rows per run that instructions access; contiguous rows count as one.
    pub rows: u64,
    /// Multiplications and moved bytes per run.
    pub operations: u64,
    /// Bytes of a run's memory, including inputs, outputs and prepared weights.
    pub bytes: u64,
}

impl Limits {
    /// Limits that suffice for networks that real devices run.
    pub const DEFAULT: Self =
        Self { instructions: 1 << 20, rows: 1 << 24, operations: 1 << 42, bytes: 1 << 32 };
}

/// Verified bytecode. Only a `Program` can be prepared and run.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) blocks: Vec<Block>,
    /// Start and end of the constants that are loaded as tensors.
    pub(crate) loaded: [usize; 2],
    operations: u64,
}

/// Instructions with a repeat count; 1 outside of loops.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) iterations: u32,
    pub(crate) body: Vec<Instruction>,
    /// Index of the first instruction in the code, for messages.
    first: usize,
}

/// An error of [`Program::load`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are not bytecode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The SoC id is unknown.
    #[error(
        "the bytecode is for SoC {0}, which this version does not support; compile the model again"
    )]
    Soc(u32),
    /// The program uses more on-chip memory than its SoC has.
    #[error("the bytecode uses {found} bytes of on-chip memory, {soc} has {expected}")]
    Sram {
        /// Bytes that it uses.
        found: u32,
        /// The SoC.
        soc: &'static str,
        /// Bytes that the SoC has.
        expected: u32,
    },
    /// An instruction is invalid.
    #[error("instruction {at} ({name}) {fault}")]
    Instruction {
        /// Index of the instruction.
        at: usize,
        /// Its name.
        name: &'static str,
        /// The fault.
        fault: String,
    },
    /// A loop is not closed.
    #[error("the bytecode ends inside a loop")]
    Open,
    /// An output is not completely written.
    #[error("output {0} is not completely written")]
    Output(usize),
    /// The program exceeds a limit.
    #[error("the bytecode exceeds the limit of {most} {what} per run")]
    TooMuch {
        /// The limited resource.
        what: &'static str,
        /// The limit.
        most: u64,
    },
}

impl<'a> Program<'a> {
    /// Decodes and verifies bytecode from an untrusted source.
    ///
    /// # Errors
    /// Returns an error for bytes that are not bytecode, and for programs that fail verification.
    pub fn load(bytes: &'a [u8], limits: &Limits) -> Result<Self, LoadError> {
        Self::from_image(Image::decode(bytes)?, limits)
    }

    /// Verifies decoded bytecode.
    ///
    /// # Errors
    /// Returns the first rule that the program violates.
    pub fn from_image(image: Image<'a>, limits: &Limits) -> Result<Self, LoadError> {
        let soc = Soc::from_id(image.soc).ok_or(LoadError::Soc(image.soc))?;
        if image.sram_bytes > soc.sram_bytes {
            let (found, expected) = (image.sram_bytes, soc.sram_bytes);
            return Err(LoadError::Sram { found, soc: soc.name, expected });
        }
        let mut bytes = u64::from(image.ddr_bytes) + u64::from(image.sram_bytes);
        let sizes = image.inputs.iter().chain(&image.outputs).map(|&size| u64::from(size));
        bytes = sizes.fold(bytes, u64::saturating_add);
        for (at, instruction) in image.code.iter().enumerate() {
            let checked = rules::check(instruction, image.constants, soc);
            checked.map_err(|fault| LoadError::Instruction {
                at,
                name: instruction.name(),
                fault,
            })?;
            bytes = bytes.saturating_add(prepared_bytes(instruction).unwrap_or(u64::MAX));
        }
        if bytes > limits.bytes {
            return Err(LoadError::TooMuch { what: "bytes", most: limits.bytes });
        }
        let blocks = blocks(&image.code)?;
        let mut run =
            Run { image: &image, written: BTreeMap::new(), left: *limits, limits, loaded: None };
        for block in &blocks {
            run.block(block)?;
        }
        for (at, &len) in image.outputs.iter().enumerate() {
            let space = u32::try_from(at).map(Space::Output);
            let written = space.ok().and_then(|space| run.written.get(&Some(space)));
            if len > 0 && !written.is_some_and(|written| written.covers(0, u64::from(len))) {
                return Err(LoadError::Output(at));
            }
        }
        let loaded =
            run.loaded.unwrap_or([0; 2]).map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let operations = limits.operations.saturating_sub(run.left.operations);
        Ok(Self { image, blocks, loaded, operations })
    }

    /// Returns the size of each input in bytes.
    pub fn inputs(&self) -> &[u32] {
        &self.image.inputs
    }

    /// Returns the size of each output in bytes.
    pub fn outputs(&self) -> &[u32] {
        &self.image.outputs
    }

    /// Returns the multiplications of a run plus the bytes that it moves.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the SoC that the program was compiled for.
    pub fn soc(&self) -> Option<&'static Soc> {
        Soc::from_id(self.image.soc)
    }
}

/// Returns the bytes prepared for an instruction, or `None` on overflow.
fn prepared_bytes(instruction: &Instruction) -> Option<u64> {
    let (conv, is_depthwise) = match instruction {
        Instruction::Conv(conv) => (conv, false),
        Instruction::Depthwise(conv) => (conv, true),
        // An upper bound: the largest prepared data is a table of 256 f32.
        _ => return Some(2048),
    };
    let sizes = |[down, across]: [u32; 2]| Some([down.try_into().ok()?, across.try_into().ok()?]);
    let ([rows, columns], outputs) =
        (sizes(conv.window.kernel)?, usize::try_from(conv.outputs).ok()?);
    let channels = usize::try_from(conv.channels).ok()?;
    let taps: usize = rows * columns;
    if is_depthwise {
        return u64::try_from(depthwise::packed_len_u8([1, rows, columns], outputs)?).ok();
    }
    let packed = conv_u8::Shape { groups: 1, channels, outputs, taps, run: 1 }.packed_len()?;
    let [down, across] = conv.window.output.map(u64::from);
    let table = (down * across).checked_mul(4 * u64::try_from(taps).ok()?)?;
    table.checked_add(u64::try_from(packed).ok()?)
}

/// Splits code into blocks at `Loop` and `End`; loops cannot be nested.
fn blocks(code: &[Instruction]) -> Result<Vec<Block>, LoadError> {
    let mut blocks = Vec::new();
    let mut current = Block { iterations: 1, body: Vec::new(), first: 0 };
    let mut is_loop = false;
    for (at, instruction) in code.iter().enumerate() {
        let begins = match instruction {
            Instruction::Loop(op) => Some(op.iterations),
            Instruction::End(_) => None,
            _ => {
                current.body.push(*instruction);
                continue;
            }
        };
        if begins.is_some() == is_loop {
            let fault =
                if is_loop { "is inside a loop, expected its End" } else { "is outside a loop" };
            let name = instruction.name();
            return Err(LoadError::Instruction { at, name, fault: fault.to_owned() });
        }
        is_loop = !is_loop;
        let next = Block { iterations: begins.unwrap_or(1), body: Vec::new(), first: at + 1 };
        blocks.push(std::mem::replace(&mut current, next));
    }
    if is_loop {
        return Err(LoadError::Open);
    }
    blocks.push(current);
    blocks.retain(|block| !block.body.is_empty());
    Ok(blocks)
}

/// A symbolic execution of a program: it tracks which bytes are written, without their values.
struct Run<'a> {
    image: &'a Image<'a>,
    /// Written bytes per memory; the key `None` is the chip.
    written: BTreeMap<Option<Space>, Written>,
    /// The resources that the rest of the program may still use.
    left: Limits,
    limits: &'a Limits,
    /// Start and end of the constants that are loaded as tensors so far.
    loaded: Option<[u64; 2]>,
}

impl Run<'_> {
    fn block(&mut self, block: &Block) -> Result<(), LoadError> {
        for iteration in 0..block.iterations {
            for (at, instruction) in (block.first..).zip(&block.body) {
                spend(&mut self.left.instructions, 1, "instructions", self.limits.instructions)?;
                let Some(access) = access(instruction) else { continue };
                let operations = access.operations.unwrap_or(u64::MAX);
                spend(&mut self.left.operations, operations, "operations", self.limits.operations)?;
                let rows = access.reads.iter().flatten().chain([&access.write]);
                let rows = rows.fold(0, |sum: u64, rows| sum.saturating_add(rows.count));
                spend(&mut self.left.rows, rows, "rows", self.limits.rows)?;
                self.access(&access, iteration).map_err(|fault| {
                    let fault = format!("{fault}, in iteration {iteration}");
                    LoadError::Instruction { at, name: instruction.name(), fault }
                })?;
            }
        }
        Ok(())
    }

    /// Checks the reads of an instruction, and marks its destination as written.
    fn access(&mut self, access: &Access, iteration: u32) -> Result<(), String> {
        let to = self.range(&access.write, iteration)?;
        for read in access.reads.iter().flatten() {
            let from = self.range(read, iteration)?;
            if read.memory == access.write.memory && from[0] < to[1] && to[0] < from[1] {
                return Err(format!("reads {from:?} and writes {to:?}, which overlap"));
            }
            self.read(read, from)?;
        }
        let memory = match access.write.memory {
            Memory::Chip => None,
            Memory::Elsewhere(Space::Input(_) | Space::Constants) => {
                return Err("writes read-only memory".to_owned());
            }
            Memory::Elsewhere(space) => Some(space),
        };
        let written = self.written.entry(memory).or_default();
        each_row(&access.write, to[0], |start, end| {
            written.insert(start, end);
            Ok(())
        })
    }

    /// Checks that all bytes of `rows` were written before. `from` is the range that they span.
    fn read(&mut self, rows: &Rows, from: [u64; 2]) -> Result<(), String> {
        let memory = match rows.memory {
            Memory::Elsewhere(Space::Input(_)) => return Ok(()),
            Memory::Elsewhere(Space::Constants) => {
                let [start, end] = self.loaded.unwrap_or(from);
                self.loaded = Some([start.min(from[0]), end.max(from[1])]);
                return Ok(());
            }
            Memory::Chip => None,
            Memory::Elsewhere(space) => Some(space),
        };
        let written = self.written.entry(memory).or_default();
        each_row(rows, from[0], |start, end| {
            if written.covers(start, end) {
                return Ok(());
            }
            Err(format!("reads bytes {start} to {end}, which are not initialized"))
        })
    }

    /// Returns the start and end of the bytes that the rows span, or an error if they exceed their memory.
    fn range(&self, rows: &Rows, iteration: u32) -> Result<[u64; 2], String> {
        let size = match rows.memory {
            Memory::Chip => u64::from(self.image.sram_bytes),
            Memory::Elsewhere(Space::Ddr) => u64::from(self.image.ddr_bytes),
            Memory::Elsewhere(Space::Constants) => self.image.constants.len() as u64,
            Memory::Elsewhere(Space::Input(index)) => size(&self.image.inputs, index),
            Memory::Elsewhere(Space::Output(index)) => size(&self.image.outputs, index),
        };
        let start = rows.at.on(iteration);
        let end = start.zip(rows.span()).and_then(|(start, span)| start.checked_add(span));
        match start.zip(end) {
            Some((start, end)) if end <= size => Ok([start, end]),
            _ => Err(format!("accesses {rows:?}, but that memory has {size} bytes")),
        }
    }
}

/// Returns the size of an input or output, or 0 if the program has no input or output of that number.
fn size(sizes: &[u32], index: u32) -> u64 {
    usize::try_from(index)
        .ok()
        .and_then(|index| sizes.get(index))
        .map_or(0, |size| u64::from(*size))
}

/// Calls `visit` with the start and end of each row; the first one begins at `start`.
fn each_row(
    rows: &Rows,
    start: u64,
    mut visit: impl FnMut(u64, u64) -> Result<(), String>,
) -> Result<(), String> {
    (0..rows.count).try_for_each(|row| {
        let start = start.saturating_add(row.saturating_mul(rows.pitch));
        visit(start, start.saturating_add(rows.width))
    })
}

/// Subtracts a cost from the `left` part of a limit; `what` names the resource in the error, and `most` is the limit.
fn spend(left: &mut u64, cost: u64, what: &'static str, most: u64) -> Result<(), LoadError> {
    *left = left.checked_sub(cost).ok_or(LoadError::TooMuch { what, most })?;
    Ok(())
}
