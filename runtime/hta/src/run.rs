//! The interpreter: runs a prepared program without heap allocation.
//!
//! A program is a list of blocks, each a list of instructions that repeats. `filter` computes convolutions, `tiles` all
//! other instructions.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "kernel arithmetic, and sizes that were checked"
)]

mod filter;
mod memory;
mod parallel;
mod prepare;
mod tiles;

use memory::Memory;
pub use parallel::{Alone, Call, Parallel};
use prepare::{Block, Packed, Step};

/// A program with packed weights, for any number of runs on any number of threads.
#[derive(Debug)]
pub struct Prepared {
    blocks: Vec<Block>,
    packed: Vec<Packed>,
    tables: Vec<Vec<u32>>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    /// The constants that `Load` instructions read, and the address of the first byte.
    constants: Vec<u8>,
    constants_at: usize,
    /// Bytes of the four scratch memories: DDR, on-chip memory, a padded image, and a row of padding.
    lens: [usize; 4],
}

/// An error of [`Program::prepare`](crate::Program::prepare): sizes exceed this machine's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program's sizes exceed this machine's address space")]
pub struct PrepareError;

/// An error of [`Prepared::run`] or [`Prepared::run_on`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The number of inputs is wrong.
    #[error("the run got {found} inputs, expected {expected}")]
    Inputs {
        /// Number of inputs passed.
        found: usize,
        /// Number of inputs of the program.
        expected: usize,
    },
    /// The number of outputs is wrong.
    #[error("the run got {found} outputs, expected {expected}")]
    Outputs {
        /// Number of outputs passed.
        found: usize,
        /// Number of outputs of the program.
        expected: usize,
    },
    /// An input has the wrong length.
    #[error("input {at} has {found} bytes, expected {expected}")]
    Input {
        /// Index of the input.
        at: usize,
        /// Its bytes.
        found: usize,
        /// Bytes that the program expects.
        expected: usize,
    },
    /// An output has the wrong length.
    #[error("output {at} has {found} bytes, expected {expected}")]
    Output {
        /// Index of the output.
        at: usize,
        /// Its bytes.
        found: usize,
        /// Bytes that the program expects.
        expected: usize,
    },
    /// The scratch memory is too small.
    #[error("the run got {found} bytes of scratch memory, expected {expected}")]
    Scratch {
        /// Bytes passed.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// The host stopped the run.
    #[error("the run was stopped by its host")]
    Stopped,
    /// An instruction accessed memory out of bounds; impossible for a verified program.
    #[error("an instruction accessed memory out of bounds")]
    Broken,
}

/// Alignment of a run's memories in bytes.
const ALIGNMENT: usize = 64;

impl Prepared {
    /// Returns the bytes of scratch memory that a run needs.
    pub fn scratch_len(&self) -> usize {
        self.lens.iter().map(|len| len.next_multiple_of(ALIGNMENT)).sum::<usize>() + ALIGNMENT
    }

    /// Returns the size of each input in bytes.
    pub fn input_lens(&self) -> &[usize] {
        &self.inputs
    }

    /// Returns the size of each output in bytes.
    pub fn output_lens(&self) -> &[usize] {
        &self.outputs
    }

    /// Returns the bytes of packed weights and tables.
    pub fn prepared_bytes(&self) -> usize {
        let packed: usize = self.packed.iter().map(|packed| packed.get().len()).sum();
        let entries: usize = self.tables.iter().map(Vec::len).sum();
        packed + entries * size_of::<u32>() + self.constants.len()
    }

    /// Computes the outputs on the calling thread. The contents of `scratch` are ignored, and unspecified afterwards.
    ///
    /// # Errors
    /// Returns an error if an input, an output or the scratch memory has the wrong size.
    pub fn run(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), RunError> {
        self.run_on(&Alone, inputs, outputs, scratch)
    }

    /// Like [`run`](Self::run), with threads that the caller provides.
    ///
    /// # Errors
    /// Returns the errors of `run`, and those of `parallel`.
    pub fn run_on(
        &self,
        parallel: &dyn Parallel,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), RunError> {
        self.check(inputs, outputs, scratch)?;
        let mut free = memory::broken(scratch.get_mut(scratch.as_ptr().align_offset(ALIGNMENT)..))?;
        let mut take = |len: usize| {
            let size = len.next_multiple_of(ALIGNMENT);
            let (part, following) =
                memory::broken(std::mem::take(&mut free).split_at_mut_checked(size))?;
            free = following;
            memory::broken(part.get_mut(..len))
        };
        let [ddr, chip, bordered, padding] = self.lens;
        let mut memory = Memory {
            inputs,
            outputs,
            constants: &self.constants,
            constants_at: self.constants_at,
            ddr: take(ddr)?,
            chip: take(chip)?,
            bordered: take(bordered)?,
            padding: take(padding)?,
        };
        for block in &self.blocks {
            for iteration in 0..block.iterations {
                for step in &block.steps {
                    self.step(step, iteration, &mut memory, parallel)?;
                }
            }
        }
        Ok(())
    }

    fn check(
        &self,
        inputs: &[&[u8]],
        outputs: &[&mut [u8]],
        scratch: &[u8],
    ) -> Result<(), RunError> {
        let (found, expected) = (inputs.len(), self.inputs.len());
        if found != expected {
            return Err(RunError::Inputs { found, expected });
        }
        let (found, expected) = (outputs.len(), self.outputs.len());
        if found != expected {
            return Err(RunError::Outputs { found, expected });
        }
        for (at, (input, &expected)) in inputs.iter().zip(&self.inputs).enumerate() {
            let found = input.len();
            if found != expected {
                return Err(RunError::Input { at, found, expected });
            }
        }
        for (at, (output, &expected)) in outputs.iter().zip(&self.outputs).enumerate() {
            let found = output.len();
            if found != expected {
                return Err(RunError::Output { at, found, expected });
            }
        }
        let (found, expected) = (scratch.len(), self.scratch_len());
        if found < expected {
            return Err(RunError::Scratch { found, expected });
        }
        Ok(())
    }

    fn step(
        &self,
        step: &Step,
        iteration: u32,
        memory: &mut Memory<'_, '_, '_>,
        parallel: &dyn Parallel,
    ) -> Result<(), RunError> {
        match step {
            Step::Load(op) => tiles::load(op, iteration, memory),
            Step::Store(op) => tiles::store(op, iteration, memory),
            Step::Copy(op) => tiles::copy(op, iteration, memory),
            Step::Filter(filter) => {
                let packed = memory::broken(self.packed.get(filter.packed))?.get();
                filter::run(filter, packed, &self.tables, iteration, memory, parallel)
            }
            Step::MaxPool(op) => tiles::max_pool(op, iteration, memory),
            Step::AveragePool(op) => tiles::average_pool(op, iteration, memory),
            Step::Pair(operation, op) => tiles::pair(*operation, op, iteration, memory),
            Step::Lookup(op, table) => tiles::lookup(op, table, iteration, memory),
            Step::Resize(op) => tiles::resize(op, iteration, memory),
            Step::Softmax(op, powers) => tiles::softmax(op, powers, iteration, memory),
        }
    }
}
