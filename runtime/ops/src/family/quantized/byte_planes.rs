//! Splits values of up to 16 bits into a plane of high bytes and a plane of low bytes, which the 8-bit primitives
//! multiply by 8-bit weights: `x w = 256 (high w) + (low w)`. The sums of each plane fit i32, as those of 8-bit
//! products do.

use udo_api::{
    DType, Element, Error, ExecError, Inputs, Outputs, Parallel, TensorDesc, TypeSet, types,
};
use udo_simd::rows::{self, ByteSums, Quantized};

use super::first;
use crate::family::partition::GRAIN;
use crate::number::refuse_type;

/// The types that can be split.
pub(crate) const UP_TO_16_BITS: TypeSet = types::U8.or(types::I8).or(types::U16).or(types::I16);

/// Bit to invert in the high byte of a signed value to get the unsigned value that is 2^15 (or 2^7) larger.
const FLIP: u8 = 1 << 7;

/// How an input is split into planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytePlanes {
    dtype: DType,
    len: usize,
}

/// The planes of an input, each with the zero point of its bytes. The high plane is empty for 8-bit values.
pub(crate) struct Planes<'a> {
    pub(crate) high: (&'a [u8], u8),
    pub(crate) low: (&'a [u8], u8),
}

impl BytePlanes {
    /// Returns the planes for an input of this type and shape.
    pub(crate) fn new(x: &TensorDesc) -> Result<Self, Error> {
        match x.dtype() {
            Some(dtype @ (DType::U8 | DType::I8 | DType::U16 | DType::I16)) => {
                Ok(Self { dtype, len: x.len() })
            }
            found => Err(refuse_type(found)),
        }
    }

    /// Returns the number of planes.
    pub(crate) fn count(self) -> usize {
        self.dtype.size_bytes()
    }

    /// Returns the scratch elements of all planes.
    pub(crate) fn scratch_len(self) -> usize {
        self.len.saturating_mul(self.count())
    }

    /// Splits the values of input `port`, with the optional zero point at `zero`.
    pub(crate) fn take_apart<'a>(
        self,
        inputs: &Inputs<'_>,
        [port, zero]: [usize; 2],
        parallel: Parallel<'_>,
        scratch: &'a mut [u8],
    ) -> Result<Planes<'a>, ExecError> {
        let (high, low) = scratch.split_at_mut(self.len.min(scratch.len()) * (self.count() - 1));
        let flip = if matches!(self.dtype, DType::I8 | DType::I16) { FLIP } else { 0 };
        let [high_zero, low_zero] = match self.dtype {
            DType::U8 => [0, first::<u8>(inputs, zero, 0)?],
            DType::I8 => [0, first::<i8>(inputs, zero, 0)?.cast_unsigned() ^ flip],
            DType::U16 => first::<u16>(inputs, zero, 0)?.to_be_bytes(),
            _ => first::<i16>(inputs, zero, 0)?.to_be_bytes(),
        };
        match self.dtype {
            DType::U8 => write_plane(parallel, inputs.get::<u8>(port)?, low, |x| x),
            DType::I8 => {
                write_plane(parallel, inputs.get::<i8>(port)?, low, |x| x.cast_unsigned() ^ flip)
            }
            DType::U16 => split_bytes(parallel, inputs.get::<u16>(port)?, (high, low), flip),
            _ => split_bytes(parallel, inputs.get::<i16>(port)?, (high, low), flip),
        }?;
        let high_zero = if self.count() > 1 { high_zero ^ flip } else { 0 };
        Ok(Planes { high: (high, high_zero), low: (low, low_zero) })
    }
}

/// A 16-bit value as its high and low byte.
trait Bytes: Element {
    fn bytes(self) -> [u8; 2];
}

impl Bytes for u16 {
    fn bytes(self) -> [u8; 2] {
        self.to_be_bytes()
    }
}

impl Bytes for i16 {
    fn bytes(self) -> [u8; 2] {
        self.to_be_bytes()
    }
}

fn split_bytes<T: Bytes>(
    parallel: Parallel<'_>,
    x: &[T],
    (high, low): (&mut [u8], &mut [u8]),
    flip: u8,
) -> Result<(), ExecError> {
    write_plane(parallel, x, high, |x| x.bytes()[0] ^ flip)?;
    write_plane(parallel, x, low, |x| x.bytes()[1])
}

fn write_plane<T: Element>(
    parallel: Parallel<'_>,
    x: &[T],
    plane: &mut [u8],
    byte: impl Fn(T) -> u8 + Sync,
) -> Result<(), ExecError> {
    parallel.chunks_mut(plane, GRAIN, |chunk, plane| {
        let x = x.get(chunk * GRAIN..).unwrap_or(&[]);
        plane.iter_mut().zip(x).for_each(|(to, &x)| *to = byte(x));
        Ok(())
    })
}

/// The position of channels in the output, and their biases (possibly empty) and scales.
#[derive(Clone, Copy)]
pub(crate) struct Channels<'a> {
    pub(crate) bias: &'a [i32],
    pub(crate) scales: &'a [f32],
    /// Number of consecutive outputs of one channel; 1 with channels last.
    pub(crate) run: usize,
}

/// Dense sums of each plane; those of the high plane are empty for 8-bit values.
#[derive(Clone, Copy)]
pub(crate) struct PlaneSums<'a> {
    pub(crate) high: &'a [i32],
    pub(crate) low: &'a [i32],
}

/// Combines and requantizes the sums into output 0, whose zero point is at `zero`.
pub(crate) fn store(
    inputs: &Inputs<'_>,
    outputs: &mut Outputs<'_>,
    parallel: Parallel<'_>,
    zero: usize,
    (sums, channels): (PlaneSums<'_>, Channels<'_>),
) -> Result<(), ExecError> {
    match outputs.dtype(0)? {
        DType::U8 => store_as::<u8>(inputs, outputs, parallel, zero, (sums, channels)),
        DType::I8 => store_as::<i8>(inputs, outputs, parallel, zero, (sums, channels)),
        DType::U16 => store_as::<u16>(inputs, outputs, parallel, zero, (sums, channels)),
        _ => store_as::<i16>(inputs, outputs, parallel, zero, (sums, channels)),
    }
}

fn store_as<C: Element + Quantized>(
    inputs: &Inputs<'_>,
    outputs: &mut Outputs<'_>,
    parallel: Parallel<'_>,
    zero: usize,
    (sums, Channels { bias, scales, run }): (PlaneSums<'_>, Channels<'_>),
) -> Result<(), ExecError> {
    let zero = first::<C>(inputs, zero, C::default())?;
    let y = outputs.take::<C>(0)?;
    // A row spans all channels with channels last, else part of one channel.
    let row = if run == 1 { scales.len() } else { run };
    let rows = (GRAIN / row.max(1)).max(1);
    parallel.chunks_mut(y, rows * row, |chunk, y| {
        for (index, y) in (chunk * rows..).zip(y.chunks_mut(row)) {
            let range = index * row..index * row + y.len();
            let channel = index % scales.len();
            let (bias, scales) = if run == 1 {
                (bias, scales)
            } else {
                (bias.get(channel..=channel).unwrap_or(&[]), &scales[channel..=channel])
            };
            let high = if sums.high.is_empty() { &[] } else { &sums.high[range.clone()] };
            let low = &sums.low[range];
            rows::requantize(ByteSums { high, low, bias, scales }, zero, y);
        }
        Ok(())
    })
}
