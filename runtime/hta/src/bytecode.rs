//! The binary format: a head, instructions, constants. `docs/hta-bytecode.md` has every field.

mod instruction;
mod words;

pub use instruction::{
    AveragePool, Convolution, End, INSTRUCTIONS, Instruction, Lines, Lookup, Loop, MaxPool, Pair,
    Resize, Softmax, Transfer, Window,
};
pub use words::{At, Space};
pub(crate) use words::{Fault, Reader, Words};

/// What bytecode begins with.
pub const MAGIC: [u8; 8] = *b"UDO-HTA\0";

/// The version of the format. There is one.
pub const VERSION: u32 = 1;

/// Words of the head without the sizes of inputs and outputs.
const HEAD_WORDS: usize = 8;

/// Bytecode in its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Image<'a> {
    /// The id of the SoC that it was compiled for.
    pub soc: u32,
    /// On-chip memory that it uses.
    pub sram_bytes: u32,
    /// Memory off the chip that it uses.
    pub ddr_bytes: u32,
    /// The bytes of each input.
    pub inputs: Vec<u32>,
    /// The bytes of each output.
    pub outputs: Vec<u32>,
    /// What is done.
    pub code: Vec<Instruction>,
    /// What it is done with.
    pub constants: &'a [u8],
}

/// Why bytes are no bytecode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They begin with something else.
    #[error("the section does not begin with \"UDO-HTA\", so it is no bytecode for the HTA")]
    Magic,
    /// They are of another version.
    #[error("the bytecode is of version {0}, wanted {VERSION}; compile the model again")]
    Version(u32),
    /// They are not as long as their head says.
    #[error(
        "the section has {found} bytes, and its head says {wanted}; it was cut off or is damaged"
    )]
    Length {
        /// The bytes that there are.
        found: usize,
        /// Those that the head needs, or names.
        wanted: u64,
    },
    /// An instruction is not one.
    #[error("instruction {at} {fault}")]
    Instruction {
        /// Which one.
        at: usize,
        /// What is wrong with it.
        fault: String,
    },
}

impl<'a> Image<'a> {
    /// The bytes of it.
    ///
    /// # Errors
    /// More of something than 32 bits count.
    pub fn encode(&self) -> Result<Vec<u8>, std::num::TryFromIntError> {
        let mut code = Vec::new();
        self.code.iter().for_each(|instruction| instruction.put(&mut code));
        let mut words = vec![VERSION, self.soc, self.sram_bytes, self.ddr_bytes];
        for len in [self.inputs.len(), self.outputs.len(), code.len(), self.constants.len()] {
            words.push(u32::try_from(len)?);
        }
        words.extend(self.inputs.iter().chain(&self.outputs).chain(&code));
        let mut bytes = MAGIC.to_vec();
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(self.constants);
        Ok(bytes)
    }

    /// The parts of bytes. What the instructions mean is not looked at, which [`Program::load`](crate::Program::load) does.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Some((magic, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(DecodeError::Magic);
        };
        if *magic != MAGIC {
            return Err(DecodeError::Magic);
        }
        let length = |wanted| DecodeError::Length { found: bytes.len(), wanted };
        let shortest = MAGIC.len() + HEAD_WORDS * 4;
        let mut head = Reader::new(rest.as_chunks::<4>().0);
        let mut next = || head.next().map_err(|_| length(shortest as u64));
        let version = next()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let [soc, sram_bytes, ddr_bytes, inputs, outputs, code, constants] =
            [next()?, next()?, next()?, next()?, next()?, next()?, next()?];
        let words = HEAD_WORDS as u64 + u64::from(inputs) + u64::from(outputs) + u64::from(code);
        let wanted = MAGIC.len() as u64 + 4 * words + u64::from(constants);
        if wanted != bytes.len() as u64 {
            return Err(length(wanted));
        }
        let mut left = rest.get(HEAD_WORDS * 4..).unwrap_or_default();
        let mut part = |bytes: u64| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let (part, rest) = left.split_at_checked(bytes).ok_or_else(|| length(wanted))?;
            left = rest;
            Ok(part)
        };
        let sizes = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).collect()
        };
        Ok(Self {
            soc,
            sram_bytes,
            ddr_bytes,
            inputs: sizes(part(4 * u64::from(inputs))?),
            outputs: sizes(part(4 * u64::from(outputs))?),
            code: instructions(part(4 * u64::from(code))?)?,
            constants: part(u64::from(constants))?,
        })
    }
}

fn instructions(bytes: &[u8]) -> Result<Vec<Instruction>, DecodeError> {
    let mut reader = Reader::new(bytes.as_chunks::<4>().0);
    let mut code = Vec::new();
    while reader.left() > 0 {
        let said = |fault| match fault {
            Fault::Short => "has fewer words than its fields take".to_owned(),
            Fault::Code(code) => format!("has code {code}, which none has"),
            Fault::Space(space) => format!("is about memory {space:#x}, which there is not"),
        };
        let read = Instruction::take(&mut reader);
        code.push(
            read.map_err(|fault| DecodeError::Instruction { at: code.len(), fault: said(fault) })?,
        );
    }
    Ok(code)
}
