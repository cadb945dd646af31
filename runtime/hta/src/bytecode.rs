//! The binary format of compiled networks: header, sizes of inputs and outputs, instructions, constants.
//! `docs/hta-bytecode.md` documents every field. The compiler writes it, and the verifier reads it.

mod instruction;
mod words;

pub use instruction::{
    AveragePool, Convolution, End, INSTRUCTIONS, Instruction, Lines, Lookup, Loop, MaxPool, Pair,
    Resize, Softmax, Transfer, Window,
};
pub use words::{At, Space};
pub(crate) use words::{Fault, Reader, Words};

/// The first bytes of bytecode.
pub const MAGIC: [u8; 8] = *b"UDO-HTA\0";

/// The format version.
pub const VERSION: u32 = 1;

/// Words of the header after the magic bytes: the version, three fields and four counts.
const HEAD_WORDS: usize = 8;

/// Decoded bytecode.
#[derive(Clone, Debug, PartialEq)]
pub struct Image<'a> {
    /// The id of the SoC that it was compiled for.
    pub soc: u32,
    /// Bytes of on-chip memory used.
    pub sram_bytes: u32,
    /// Bytes of off-chip memory used.
    pub ddr_bytes: u32,
    /// The size of each input in bytes.
    pub inputs: Vec<u32>,
    /// The size of each output in bytes.
    pub outputs: Vec<u32>,
    /// The instructions.
    pub code: Vec<Instruction>,
    /// Weights, tables and constant tensors.
    pub constants: &'a [u8],
}

/// An error of [`Image::decode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The magic bytes are missing.
    #[error("the section does not begin with \"UDO-HTA\", so it is not HTA bytecode")]
    Magic,
    /// The format version is not supported.
    #[error("the bytecode has version {0}, expected {VERSION}; compile the model again")]
    Version(u32),
    /// The length differs from the length in the header.
    #[error(
        "the section has {found} bytes, expected {expected} as its header says; it is truncated or damaged"
    )]
    Length {
        /// The actual length in bytes.
        found: usize,
        /// The length that the header needs or states.
        expected: u64,
    },
    /// An instruction cannot be decoded.
    #[error("instruction {at} {fault}")]
    Instruction {
        /// Index of the instruction.
        at: usize,
        /// The fault.
        fault: String,
    },
}

impl<'a> Image<'a> {
    /// Encodes the bytecode.
    ///
    /// # Errors
    /// Returns an error if a count exceeds 32 bits.
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

    /// Decodes bytecode without verifying the instructions; [`Program::load`](crate::Program::load) does both.
    ///
    /// # Errors
    /// Returns an error for bytes that do not follow the format.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Some((magic, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(DecodeError::Magic);
        };
        if *magic != MAGIC {
            return Err(DecodeError::Magic);
        }
        let length = |expected| DecodeError::Length { found: bytes.len(), expected };
        let header_len = MAGIC.len() + HEAD_WORDS * 4;
        let mut header = Reader::new(rest.as_chunks::<4>().0);
        let mut next = || header.next().map_err(|_| length(header_len as u64));
        let version = next()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let [soc, sram_bytes, ddr_bytes, inputs, outputs, code, constants] =
            [next()?, next()?, next()?, next()?, next()?, next()?, next()?];
        let words = HEAD_WORDS as u64 + u64::from(inputs) + u64::from(outputs) + u64::from(code);
        let expected = MAGIC.len() as u64 + 4 * words + u64::from(constants);
        if expected != bytes.len() as u64 {
            return Err(length(expected));
        }
        let mut body = rest.get(HEAD_WORDS * 4..).unwrap_or_default();
        let mut take = |bytes: u64| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let (part, following) = body.split_at_checked(bytes).ok_or_else(|| length(expected))?;
            body = following;
            Ok(part)
        };
        let sizes = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        Ok(Self {
            soc,
            sram_bytes,
            ddr_bytes,
            inputs: sizes(take(4 * u64::from(inputs))?),
            outputs: sizes(take(4 * u64::from(outputs))?),
            code: instructions(take(4 * u64::from(code))?)?,
            constants: take(u64::from(constants))?,
        })
    }
}

fn instructions(bytes: &[u8]) -> Result<Vec<Instruction>, DecodeError> {
    let mut reader = Reader::new(bytes.as_chunks::<4>().0);
    let mut code = Vec::new();
    while reader.left() > 0 {
        let describe = |fault| match fault {
            Fault::Short => "has fewer words than its fields need".to_owned(),
            Fault::Code(code) => format!("has code {code}, which is not an instruction"),
            Fault::Space(space) => format!("refers to memory {space:#x}, which does not exist"),
        };
        let instruction = Instruction::take(&mut reader);
        code.push(instruction.map_err(|fault| DecodeError::Instruction {
            at: code.len(),
            fault: describe(fault),
        })?);
    }
    Ok(code)
}
