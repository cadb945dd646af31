//! How kernels of f32 store their results: as they are, or as quantized values, which a strip of them becomes while it is in cache.

use udo_api::{
    DType, Element, Encoding, EpilogueOp, EpilogueStep, ExecError, Outputs, Parallel,
    QuantizedType, Status,
};
use udo_simd::rows::{self, Quantized};

/// Results of a strip: an eighth of a second-level cache of 1 MiB.
const STRIP: usize = 1 << 15;

/// What a kernel stores in the place of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuantizedAs {
    pub(crate) dtype: DType,
    pub(crate) encoding: Encoding,
}

impl QuantizedAs {
    /// What the first of some steps asks for, if it quantizes and there are results of its type.
    pub(crate) fn asked_first(steps: &[EpilogueStep]) -> Option<Self> {
        let step = steps.first().filter(|step| step.op() == Some(EpilogueOp::Quantize))?;
        let dtype = step.output().dtype()?;
        let encoding = step.output().encoding()?;
        matches!(dtype, DType::U8 | DType::I8 | DType::U16 | DType::I16)
            .then_some(Self { dtype, encoding })
    }
}

/// The results of a kernel, which it computes in f32.
pub(crate) enum Results<'a> {
    Numbers(&'a mut [f32]),
    U8(&'a mut [u8], Encoding),
    I8(&'a mut [i8], Encoding),
    U16(&'a mut [u16], Encoding),
    I16(&'a mut [i16], Encoding),
}

/// How results are cut among threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Results of a row.
    pub(crate) row: usize,
    /// Rows that a thread takes at a time.
    pub(crate) height: usize,
    /// Rows that are computed at once where they become quantized values; at most `height` are.
    pub(crate) strip: usize,
    /// Elements of workspace that a thread has of its own meanwhile.
    pub(crate) workspace: usize,
}

/// Rows of so many results that are computed at once where they become quantized values: at least `least`.
pub(crate) fn strip_rows(row: usize, least: usize) -> usize {
    (STRIP / row.max(1)).max(least)
}

impl Cut {
    /// Results of a strip.
    fn strip_len(&self) -> usize {
        self.strip.min(self.height).saturating_mul(self.row)
    }

    /// Elements of workspace for the strips of `rows` rows that become quantized values, where they are cut into no more than
    /// `chunks`.
    pub(crate) fn strips_len(&self, rows: usize, chunks: usize) -> usize {
        let strip = self.strip_len();
        // Only the last of the chunks may be shorter than a strip.
        let all = rows.saturating_mul(self.row).saturating_add(strip);
        chunks.saturating_mul(strip).min(all)
    }
}

impl<'a> Results<'a> {
    /// Output 0.
    pub(crate) fn take(
        outputs: &mut Outputs<'a>,
        quantized: Option<QuantizedAs>,
    ) -> Result<Self, ExecError> {
        let Some(QuantizedAs { dtype, encoding }) = quantized else {
            return outputs.take(0).map(Self::Numbers);
        };
        match dtype {
            DType::U8 => outputs.take(0).map(|y| Self::U8(y, encoding)),
            DType::I8 => outputs.take(0).map(|y| Self::I8(y, encoding)),
            DType::U16 => outputs.take(0).map(|y| Self::U16(y, encoding)),
            DType::I16 => outputs.take(0).map(|y| Self::I16(y, encoding)),
            _ => Err(ExecError::of(Status::WRONG_TYPE)),
        }
    }

    /// `len` of them from `at` on.
    pub(crate) fn part(&mut self, at: usize, len: usize) -> Results<'_> {
        match self {
            Self::Numbers(y) => Results::Numbers(&mut y[at..][..len]),
            Self::U8(y, encoding) => Results::U8(&mut y[at..][..len], *encoding),
            Self::I8(y, encoding) => Results::I8(&mut y[at..][..len], *encoding),
            Self::U16(y, encoding) => Results::U16(&mut y[at..][..len], *encoding),
            Self::I16(y, encoding) => Results::I16(&mut y[at..][..len], *encoding),
        }
    }

    /// Has `body` compute rows from the one whose number it gets on, with its part of `workspace`.
    pub(crate) fn compute(
        self,
        parallel: Parallel<'_>,
        cut: Cut,
        workspace: &mut [f32],
        body: impl Fn(usize, &mut [f32], &mut [f32]) -> Result<(), ExecError> + Sync,
    ) -> Result<(), ExecError> {
        match self {
            Self::Numbers(y) => {
                let len = cut.height * cut.row;
                parallel.chunks_mut_with(y, len, workspace, cut.workspace, |chunk, y, own| {
                    body(chunk * cut.height, y, own)
                })
            }
            Self::U8(y, encoding) => quantized(parallel, cut, workspace, y, encoding, body),
            Self::I8(y, encoding) => quantized(parallel, cut, workspace, y, encoding, body),
            Self::U16(y, encoding) => quantized(parallel, cut, workspace, y, encoding, body),
            Self::I16(y, encoding) => quantized(parallel, cut, workspace, y, encoding, body),
        }
    }
}

fn quantized<Q: Quantized + QuantizedType + Element>(
    parallel: Parallel<'_>,
    cut: Cut,
    workspace: &mut [f32],
    y: &mut [Q],
    encoding: Encoding,
    body: impl Fn(usize, &mut [f32], &mut [f32]) -> Result<(), ExecError> + Sync,
) -> Result<(), ExecError> {
    let Cut { row, height, strip, workspace: own } = cut;
    let each = own + cut.strip_len();
    parallel.chunks_mut_with(y, height * row, workspace, each, |chunk, y, workspace| {
        let (own, results) = workspace.split_at_mut(own);
        let rows = y.len().div_ceil(row.max(1));
        let parts = rows.div_ceil(strip.max(1));
        for part in 0..parts {
            let [from, to] = [part, part + 1].map(|part| rows * part / parts);
            let end = y.len().min(to * row);
            let y = &mut y[from * row..end];
            let results = &mut results[..y.len()];
            body(chunk * height + from, results, own)?;
            quantize(results, encoding, y);
        }
        Ok(())
    })
}

/// Numbers as quantized values.
pub(crate) fn quantize<Q: Quantized + QuantizedType>(x: &[f32], encoding: Encoding, y: &mut [Q]) {
    // A zero point of 16 bits or fewer is an f32.
    rows::quantize(x, encoding.scale, Q::from_f32(encoding.zero_point as f32), y);
}
