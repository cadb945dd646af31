//! Left sides as the primitives take them: unsigned, in rows, and quantized where they are not.

use udo_api::{DType, Error, ExecError, FinalizeCx, Inputs, Parallel, Scratch, Workspace};
use udo_simd::rows::{self, transpose};

use super::lines::Lines;
use super::product::FLIP;
use crate::family::partition::GRAIN;
use crate::family::quantize::DynamicRange;

/// The left sides of a node, one after the other in an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    port: usize,
    rows: usize,
    depth: usize,
    transposed: bool,
    dtype: Option<DType>,
    zeros: Lines,
    /// Of all of them, where they are quantized here.
    range: Option<DynamicRange>,
    /// Elements of all of them.
    len: usize,
}

/// The scratch of a run.
pub(super) struct Values<'a> {
    /// Of one left side, or of all where they are quantized here.
    bytes: &'a mut [u8],
    zeros: &'a mut [u8],
    parts: &'a mut [f32],
}

/// The bits of an operand, and what to flip in them where they are those of unsigned values.
pub(super) fn bits<'a>(inputs: &Inputs<'a>, port: usize) -> Result<(&'a [u8], u8), ExecError> {
    match inputs.dtype(port)? {
        DType::U8 => Ok((inputs.get::<u8>(port)?, FLIP)),
        _ => Ok((rows::bits(inputs.get::<i8>(port)?), 0)),
    }
}

impl Left {
    /// Left sides of `rows` by `depth` each, which may lie transposed.
    pub(super) fn read(
        cx: &FinalizeCx<'_>,
        port: usize,
        [rows, depth]: [usize; 2],
        transposed: bool,
        zeros: Lines,
    ) -> Result<Self, Error> {
        let x = cx.input(port)?;
        let (dtype, len) = (x.dtype(), x.len());
        let range = (dtype == Some(DType::F32)).then(|| DynamicRange::of(len));
        Ok(Self { port, rows, depth, transposed, dtype, zeros, range, len })
    }

    /// The same of a single left side of so many rows.
    pub(super) fn with_rows(self, rows: usize) -> Self {
        Self { rows, len: rows * self.depth, ..self }
    }

    /// Elements of values, and of zero points.
    fn scratch_lens(&self) -> [usize; 2] {
        let one = self.rows * self.depth;
        let is_as_it_lies = self.dtype == Some(DType::U8) && !self.transposed;
        let values = if self.range.is_some() { self.len } else { one };
        [if is_as_it_lies { 0 } else { values }, self.zeros.count.max(1)]
    }

    pub(super) fn workspace(&self) -> Workspace {
        let [values, zeros] = self.scratch_lens();
        let parts = self.range.map_or(0, DynamicRange::scratch_len);
        Workspace::of::<u8>(values).and::<u8>(zeros).and::<f32>(parts)
    }

    pub(super) fn take<'a>(&self, scratch: &mut Scratch<'a>) -> Result<Values<'a>, ExecError> {
        let [values, zeros] = self.scratch_lens();
        let parts = self.range.map_or(0, DynamicRange::scratch_len);
        Ok(Values {
            bytes: scratch.take(values)?,
            zeros: scratch.take(zeros)?,
            parts: scratch.take(parts)?,
        })
    }

    /// Quantizes what is not, and returns the scale; 1 where it is.
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
        let (scale, zero) = DynamicRange::encoding(parallel, x, values.parts)?;
        values.zeros[0] = zero;
        parallel.chunks_mut(values.bytes, GRAIN, |chunk, y| {
            rows::quantize(&x[chunk * GRAIN..][..y.len()], scale, zero, y);
            Ok(())
        })?;
        Ok(scale)
    }

    /// Left side `at`, and the zero points of its rows.
    pub(super) fn get<'a>(
        &self,
        inputs: &Inputs<'a>,
        parallel: Parallel<'_>,
        at: usize,
        scratch: &'a mut Values<'_>,
    ) -> Result<(&'a [u8], &'a [u8]), ExecError> {
        let Values { bytes: values, zeros, .. } = scratch;
        let one = self.rows * self.depth;
        if self.range.is_some() {
            return Ok((&values[at * one..][..one], zeros));
        }
        let (x, right_flip) = bits(inputs, self.port)?;
        let (x, flip) = (&x[at * one..][..one], right_flip ^ FLIP);
        if self.zeros.is_there() {
            let from = self.zeros.of(bits(inputs, self.zeros.port())?.0, at)?;
            zeros.iter_mut().zip(from).for_each(|(to, zero)| *to = zero ^ flip);
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
