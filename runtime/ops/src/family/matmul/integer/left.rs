//! Left sides, converted to what the primitives read: unsigned 8-bit rows. Float left sides are quantized in the run.

use udo_api::{DType, Error, ExecError, FinalizeCx, Inputs, Parallel, Scratch, Workspace};
use udo_simd::rows::{self, transpose};

use super::lines::Lines;
use super::product::FLIP;
use crate::family::partition::GRAIN;
use crate::family::quantize::DynamicRange;

/// The left sides of a node, consecutive in an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    port: usize,
    rows: usize,
    depth: usize,
    transposed: bool,
    dtype: Option<DType>,
    zeros: Lines,
    /// The common range of all left sides, if they are quantized in the run.
    range: Option<DynamicRange>,
    /// Elements of all left sides.
    len: usize,
}

/// Scratch memory of a run.
pub(super) struct Values<'a> {
    /// One left side, or all of them if they are quantized in the run.
    bytes: &'a mut [u8],
    /// Zero points of the rows of one left side, or one for all.
    zeros: &'a mut [u8],
    /// Least and greatest values of parts of the input, from which its range is computed.
    extremes: &'a mut [f32],
}

/// Returns the bytes of an operand, and the bit to invert in each to get the signed value.
pub(super) fn bits<'a>(inputs: &Inputs<'a>, port: usize) -> Result<(&'a [u8], u8), ExecError> {
    match inputs.dtype(port)? {
        DType::U8 => Ok((inputs.get::<u8>(port)?, FLIP)),
        _ => Ok((rows::bits(inputs.get::<i8>(port)?), 0)),
    }
}

impl Left {
    /// Reads left sides of `rows` by `depth`, possibly transposed.
    pub(super) fn read(
        cx: &FinalizeCx<'_>,
        port: usize,
        [rows, depth]: [usize; 2],
        transposed: bool,
        zeros: Lines,
    ) -> Result<Self, Error> {
        let x = cx.input(port)?;
        let (dtype, len) = (x.dtype(), x.len());
        let range = (dtype == Some(DType::F32)).then(|| DynamicRange::new(len));
        Ok(Self { port, rows, depth, transposed, dtype, zeros, range, len })
    }

    /// Returns a single left side of `rows` rows.
    pub(super) fn with_rows(self, rows: usize) -> Self {
        Self { rows, len: rows * self.depth, ..self }
    }

    /// Returns the scratch elements of values and zero points.
    fn scratch_lens(&self) -> [usize; 2] {
        let len = self.rows * self.depth;
        let is_read_unconverted = self.dtype == Some(DType::U8) && !self.transposed;
        let values = if self.range.is_some() { self.len } else { len };
        [if is_read_unconverted { 0 } else { values }, self.zeros.count.max(1)]
    }

    pub(super) fn workspace(&self) -> Workspace {
        let [values, zeros] = self.scratch_lens();
        let extremes = self.range.map_or(0, DynamicRange::scratch_len);
        Workspace::for_elements::<u8>(values).and::<u8>(zeros).and::<f32>(extremes)
    }

    pub(super) fn take<'a>(&self, scratch: &mut Scratch<'a>) -> Result<Values<'a>, ExecError> {
        let [values, zeros] = self.scratch_lens();
        let extremes = self.range.map_or(0, DynamicRange::scratch_len);
        Ok(Values {
            bytes: scratch.take(values)?,
            zeros: scratch.take(zeros)?,
            extremes: scratch.take(extremes)?,
        })
    }

    /// Quantizes float left sides, and returns their scale; 1 if they are quantized already.
    pub(super) fn start(
        &self,
        inputs: &Inputs<'_>,
        parallel: Parallel<'_>,
        values: &mut Values<'_>,
    ) -> Result<f32, ExecError> {
        if self.range.is_none() {
            return Ok(1.0);
        }
        let x = inputs.get::<f32>(self.port)?;
        let (scale, zero) = DynamicRange::encoding(parallel, x, values.extremes)?;
        values.zeros[0] = zero;
        parallel.chunks_mut(values.bytes, GRAIN, |chunk, y| {
            rows::quantize(&x[chunk * GRAIN..][..y.len()], scale, zero, y);
            Ok(())
        })?;
        Ok(scale)
    }

    /// Returns left side `index`, and the zero points of its rows.
    pub(super) fn get<'a>(
        &self,
        inputs: &Inputs<'a>,
        parallel: Parallel<'_>,
        index: usize,
        scratch: &'a mut Values<'_>,
    ) -> Result<(&'a [u8], &'a [u8]), ExecError> {
        let Values { bytes: values, zeros, .. } = scratch;
        let len = self.rows * self.depth;
        if self.range.is_some() {
            return Ok((&values[index * len..][..len], zeros));
        }
        // `bits` returns the bit that makes values signed; the other choice of it makes them unsigned.
        let (x, signed_flip) = bits(inputs, self.port)?;
        let (x, flip) = (&x[index * len..][..len], signed_flip ^ FLIP);
        if self.zeros.is_present() {
            let input_zeros = self.zeros.matrix(bits(inputs, self.zeros.port())?.0, index)?;
            zeros.iter_mut().zip(input_zeros).for_each(|(to, zero)| *to = zero ^ flip);
        } else {
            zeros.fill(flip);
        }
        if self.transposed {
            transpose(x, &[self.depth, self.rows], &[1, 0], values);
            values.iter_mut().for_each(|value| *value ^= flip);
        } else if flip != 0 {
            parallel.chunks_mut(values, GRAIN, |chunk, to| {
                let from = &x[chunk * GRAIN..][..to.len()];
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from ^ flip);
                Ok(())
            })?;
        } else {
            return Ok((x, zeros));
        }
        Ok((values, zeros))
    }
}
