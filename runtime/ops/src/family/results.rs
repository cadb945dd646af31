//! Output of f32 kernels: stored as f32, or computed strip by strip (a few rows) in f32 and quantized while in cache.

use udo_api::{
    DType, Element, Encoding, EpilogueOp, EpilogueStep, ExecError, Outputs, Parallel,
    QuantizedType, Status,
};
use udo_simd::rows::{self, Quantized};

/// Elements of a strip: an eighth of a 1 MiB second-level cache.
const STRIP: usize = 1 << 15;

/// The type and encoding of a quantized output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuantizedAs {
    pub(crate) dtype: DType,
    pub(crate) encoding: Encoding,
}

impl QuantizedAs {
    /// Returns the encoding of the first step, if it quantizes to a supported type.
    pub(crate) fn first_quantization(steps: &[EpilogueStep]) -> Option<Self> {
        let step = steps.first().filter(|step| step.op() == Some(EpilogueOp::Quantize))?;
        let dtype = step.output().dtype()?;
        let encoding = step.output().encoding()?;
        matches!(dtype, DType::U8 | DType::I8 | DType::U16 | DType::I16)
            .then_some(Self { dtype, encoding })
    }
}

/// The output of an f32 kernel: pixels of some channels, or rows of a matrix, possibly strided.
pub(crate) struct Results<'a> {
    values: Values<'a>,
    /// Stride between pixels.
    pitch: usize,
}

/// The elements of an output, and the encoding of quantized ones.
enum Values<'a> {
    F32(&'a mut [f32]),
    U8(&'a mut [u8], Encoding),
    I8(&'a mut [i8], Encoding),
    U16(&'a mut [u16], Encoding),
    I16(&'a mut [i16], Encoding),
}

/// How rows of the output are divided: into grains for threads, and a grain into strips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Pixels per row; 1 for a matrix row.
    pub(crate) pixels: usize,
    /// Elements per pixel.
    pub(crate) channels: usize,
    /// Rows per grain.
    pub(crate) height: usize,
    /// Rows computed at once before they are quantized; at most `height`.
    pub(crate) strip: usize,
    /// Workspace elements of each thread.
    pub(crate) workspace: usize,
}

/// Rows that are computed at once.
pub(crate) struct Strip<'a> {
    /// Index of the first row.
    pub(crate) first: usize,
    /// Number of rows; the last row may have fewer pixels.
    pub(crate) rows: usize,
    pub(crate) y: &'a mut [f32],
    /// Stride between pixels.
    pub(crate) pitch: usize,
}

/// Returns the rows of `row` elements per strip: at least `least`.
pub(crate) fn strip_rows(row: usize, least: usize) -> usize {
    (STRIP / row.max(1)).max(least)
}

impl Cut {
    /// Returns the elements of a row.
    pub(crate) fn row(&self) -> usize {
        self.pixels.saturating_mul(self.channels)
    }

    /// Returns the elements of a strip.
    fn strip_len(&self) -> usize {
        self.strip.min(self.height).saturating_mul(self.row())
    }

    /// Returns the workspace elements for quantizing `rows` rows in strips, divided into at most `chunks` chunks.
    pub(crate) fn strips_len(&self, rows: usize, chunks: usize) -> usize {
        let strip = self.strip_len();
        // Every chunk but the last has at least a strip of rows, so the strips of all chunks exceed the output by one
        // at most.
        let most = rows.saturating_mul(self.row()).saturating_add(strip);
        chunks.saturating_mul(strip).min(most)
    }
}

impl<'a> Results<'a> {
    /// Takes output 0, with `channels` channels per pixel.
    pub(crate) fn take(
        outputs: &mut Outputs<'a>,
        quantized: Option<QuantizedAs>,
        channels: usize,
    ) -> Result<Self, ExecError> {
        let is_dense = outputs.is_dense(0)?;
        let Some(QuantizedAs { dtype, encoding }) = quantized else {
            let (y, pitch) = outputs.take_strided(0)?;
            return Ok(Self::new(Values::F32(y), if is_dense { channels } else { pitch }));
        };
        let (values, pitch) = match dtype {
            DType::U8 => outputs.take_strided(0).map(|(y, at)| (Values::U8(y, encoding), at)),
            DType::I8 => outputs.take_strided(0).map(|(y, at)| (Values::I8(y, encoding), at)),
            DType::U16 => outputs.take_strided(0).map(|(y, at)| (Values::U16(y, encoding), at)),
            DType::I16 => outputs.take_strided(0).map(|(y, at)| (Values::I16(y, encoding), at)),
            _ => Err(ExecError::new(Status::WRONG_TYPE)),
        }?;
        Ok(Self::new(values, if is_dense { channels } else { pitch }))
    }

    /// Wraps f32 values, `channels` per pixel, without gaps.
    pub(crate) fn numbers(y: &'a mut [f32], channels: usize) -> Self {
        Self::new(Values::F32(y), channels)
    }

    fn new(values: Values<'a>, pitch: usize) -> Self {
        Self { values, pitch: pitch.max(1) }
    }

    /// Returns `count` pixels from pixel `first` on.
    pub(crate) fn part(&mut self, first: usize, count: usize) -> Results<'_> {
        self.slice(first * self.pitch, count * self.pitch, self.pitch)
    }

    /// Returns the channels of the first pixel as single-channel pixels.
    pub(crate) fn channels(&mut self, count: usize) -> Results<'_> {
        self.slice(0, count, 1)
    }

    /// Returns up to `len` elements from `start` on.
    fn slice(&mut self, start: usize, len: usize, pitch: usize) -> Results<'_> {
        let values = match &mut self.values {
            Values::F32(y) => Values::F32(slice(y, start, len)),
            Values::U8(y, encoding) => Values::U8(slice(y, start, len), *encoding),
            Values::I8(y, encoding) => Values::I8(slice(y, start, len), *encoding),
            Values::U16(y, encoding) => Values::U16(slice(y, start, len), *encoding),
            Values::I16(y, encoding) => Values::I16(slice(y, start, len), *encoding),
        };
        Results::new(values, pitch)
    }

    /// Returns the output and its pixel stride if it is stored as f32.
    pub(crate) fn as_numbers(&mut self) -> Option<(&mut [f32], usize)> {
        match &mut self.values {
            Values::F32(y) => Some((y, self.pitch)),
            Values::U8(..) | Values::I8(..) | Values::U16(..) | Values::I16(..) => None,
        }
    }

    /// Computes all rows with `body`, which gets a strip and the workspace of its thread.
    pub(crate) fn compute(
        self,
        parallel: Parallel<'_>,
        cut: Cut,
        workspace: &mut [f32],
        body: impl Fn(Strip<'_>, &mut [f32]) -> Result<(), ExecError> + Sync,
    ) -> Result<(), ExecError> {
        let pitch = self.pitch;
        match self.values {
            Values::F32(y) => {
                let row = cut.pixels * pitch;
                let len = cut.height * row;
                parallel.chunks_mut_with(
                    y,
                    len,
                    workspace,
                    cut.workspace,
                    |chunk, y, thread_workspace| {
                        let rows = y.len().div_ceil(row.max(1));
                        body(Strip { first: chunk * cut.height, rows, y, pitch }, thread_workspace)
                    },
                )
            }
            Values::U8(y, encoding) => {
                quantized(parallel, cut, workspace, (y, pitch), encoding, body)
            }
            Values::I8(y, encoding) => {
                quantized(parallel, cut, workspace, (y, pitch), encoding, body)
            }
            Values::U16(y, encoding) => {
                quantized(parallel, cut, workspace, (y, pitch), encoding, body)
            }
            Values::I16(y, encoding) => {
                quantized(parallel, cut, workspace, (y, pitch), encoding, body)
            }
        }
    }
}

fn slice<T>(y: &mut [T], start: usize, len: usize) -> &mut [T] {
    let end = y.len().min(start + len);
    &mut y[start..end]
}

fn quantized<Q: Quantized + QuantizedType + Element>(
    parallel: Parallel<'_>,
    cut: Cut,
    workspace: &mut [f32],
    (y, pitch): (&mut [Q], usize),
    encoding: Encoding,
    body: impl Fn(Strip<'_>, &mut [f32]) -> Result<(), ExecError> + Sync,
) -> Result<(), ExecError> {
    let Cut { pixels, channels, height, strip, workspace: body_len } = cut;
    let row = pixels * pitch;
    let workspace_len = body_len + cut.strip_len();
    parallel.chunks_mut_with(y, height * row, workspace, workspace_len, |chunk, y, workspace| {
        let (body_workspace, results) = workspace.split_at_mut(body_len);
        let rows = y.len().div_ceil(row.max(1));
        let strips = rows.div_ceil(strip.max(1));
        for strip in 0..strips {
            let [first, end] = [strip, strip + 1].map(|strip| rows * strip / strips);
            let end_element = y.len().min(end * row);
            let y = &mut y[first * row..end_element];
            let results = &mut results[..y.len().div_ceil(pitch) * channels];
            let (first, rows) = (chunk * height + first, end - first);
            body(Strip { first, rows, y: &mut *results, pitch: channels }, body_workspace)?;
            if pitch == channels {
                quantize(results, encoding, y);
                continue;
            }
            for (x, y) in results.chunks_exact(channels.max(1)).zip(y.chunks_mut(pitch)) {
                quantize(x, encoding, &mut y[..channels]);
            }
        }
        Ok(())
    })
}

/// Quantizes f32 values.
pub(crate) fn quantize<Q: Quantized + QuantizedType>(x: &[f32], encoding: Encoding, y: &mut [Q]) {
    // Zero points of up to 16 bits are exact in f32.
    rows::quantize(x, encoding.scale, Q::from_f32(encoding.zero_point as f32), y);
}
