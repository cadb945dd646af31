//! The plan of a convolution: the algorithm for a shape, its table, packed weights and workspace, and the run.

use std::ops::Range;

use super::{Shape, Strides};
use crate::gemm_f32::{Epilogue, IndirectA, MicroKernels, RowMap, Stored, kernels};
use crate::indirect::Window;
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// The most input channels with which the taps of a kernel row are read as one run of contiguous elements.
const MAX_RUN_CHANNELS: usize = 4;

/// The algorithm of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A plain matrix product: one tap, and output pixels match input pixels.
    Gemm,
    /// Indirect GEMM, with a table of each tap's position in the image.
    Indirect,
    /// Indirect GEMM on a padded copy of the image, where the taps of a kernel row are contiguous; the table has the
    /// position of each row. For up to 4 channels in one group: with more, the copy costs more than longer runs save.
    IndirectRows,
}

/// A convolution ready to run, except for its memory.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    kernels: &'static MicroKernels,
    pub(super) shape: Shape,
    pub(super) algorithm: Algorithm,
    /// The window of the table; its taps are kernel rows of the padded image for [`Algorithm::IndirectRows`].
    window: Window,
    /// Columns of the table.
    pub(super) taps: usize,
    /// Output pixels.
    rows: usize,
    table_len: usize,
    /// Elements of the packed weights before the row of zeros.
    weights_len: usize,
    zeros_len: usize,
    workspace_len: usize,
}

impl Plan {
    /// Plans for the instruction set in use; `None` if sizes overflow, or there are more pixels than a table can index.
    pub fn new(shape: &Shape) -> Option<Self> {
        Self::with_kernels(kernels_for_outputs(shape.outputs), shape)
    }

    /// Packs weights in ONNX's order for every plan from [`Plan::new`] with these groups, outputs and channels per
    /// group, and taps; image size, strides and dilations do not matter. Fills the rest of `out` with zeros, which taps
    /// in the padding read.
    ///
    /// # Panics
    ///
    /// Panics if `weights` or `out` is too short.
    pub fn pack_onnx<T: Stored>(
        [groups, outputs, channels, taps]: [usize; 4],
        weights: &[T],
        out: &mut [f32],
    ) {
        let shape = Shape { window: Window::line(taps), channels, outputs, groups };
        let kernels = kernels_for_outputs(outputs);
        let (packed, zeros) =
            out.split_at_mut(groups * kernels.packed_len(taps * channels, outputs));
        Strides::onnx(&shape).pack(kernels, &shape, weights, &(0..taps), packed);
        zeros.fill(0.0);
    }

    /// Plans for these micro-kernels.
    pub fn with_kernels(kernels: &'static MicroKernels, shape: &Shape) -> Option<Self> {
        let Shape { window, channels, outputs, groups } = *shape;
        let taps = window.taps()?;
        let all_channels = groups.checked_mul(channels)?;
        let padded_outputs = outputs.checked_next_multiple_of(64)?;
        all_channels.checked_mul(padded_outputs)?.checked_mul(taps)?;
        groups.checked_mul(padded_outputs)?;
        taps.checked_mul(channels)?.checked_mul(padded_outputs)?;
        window.table_len()?.checked_mul(all_channels)?;
        let algorithm = algorithm(shape);
        let (table, run) = match algorithm {
            Algorithm::Gemm | Algorithm::Indirect => (window, 1),
            Algorithm::IndirectRows => (padded(&window)?, window.kernel[2]),
        };
        let len = kernels.packed_len(taps * channels, outputs);
        let workspace_len = match algorithm {
            Algorithm::Gemm | Algorithm::Indirect => 0,
            Algorithm::IndirectRows => table.input_len()?.checked_mul(channels)?,
        };
        let weights_len = groups.checked_mul(len)?;
        weights_len.checked_add(all_channels * run)?;
        Some(Self {
            kernels,
            shape: *shape,
            algorithm,
            window: table,
            taps: table.taps()?,
            rows: window.rows()?,
            table_len: if algorithm == Algorithm::Gemm { 0 } else { table.table_len()? },
            weights_len,
            zeros_len: all_channels * run,
            workspace_len,
        })
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the number of output pixels.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the entries of the table.
    pub fn table_len(&self) -> usize {
        self.table_len
    }

    /// Fills the table. Returns false if `table` does not have [`Self::table_len`] entries.
    #[must_use]
    pub fn fill(&self, table: &mut [u32]) -> bool {
        match self.algorithm {
            Algorithm::Gemm => table.is_empty(),
            Algorithm::Indirect | Algorithm::IndirectRows => self.window.fill(table),
        }
    }

    /// Returns the elements of the packed weights.
    pub fn packed_len(&self) -> usize {
        self.weights_len + self.zeros_len
    }

    /// Packs the weights into the first [`Self::packed_len`] elements of `out`. Convolutions are fastest if it is
    /// aligned to 64 bytes.
    ///
    /// # Panics
    ///
    /// Panics if `weights` or `out` is too short.
    pub fn pack<T: Stored>(&self, weights: &[T], strides: &Strides, out: &mut [f32]) {
        let (packed, zeros) = out[..self.packed_len()].split_at_mut(self.weights_len);
        let taps = self.shape.window.kernel.iter().product();
        strides.pack(self.kernels, &self.shape, weights, &(0..taps), packed);
        zeros.fill(0.0);
    }

    /// Returns the elements of the padded copy of an image; 0 if none is needed.
    pub fn workspace_len(&self) -> usize {
        self.workspace_len
    }

    /// Returns the elements of a line of the padded copy; 0 if none is needed.
    pub fn padded_line_len(&self) -> usize {
        if self.workspace_len == 0 { 0 } else { self.window.input[2] * self.shape.channels }
    }

    /// Writes the padded copy of an image whose pixels have a stride of `strides[0]` and the channels of a pixel
    /// `strides[1]`, so that it need not be NHWC. Does nothing if no copy is needed.
    ///
    /// # Panics
    ///
    /// Panics if the image or the workspace is too short.
    pub fn pad(&self, image: &[f32], strides: [usize; 2], workspace: &mut [f32]) {
        self.pad_lines(image, strides, 0, &mut workspace[..self.workspace_len]);
    }

    /// Writes the lines from `first` on that `out` has space for, so that threads may share a copy.
    ///
    /// # Panics
    ///
    /// Panics if the image is too short, or has no such lines.
    pub fn pad_lines(&self, image: &[f32], strides: [usize; 2], first: usize, out: &mut [f32]) {
        self.pad_lines_on(isa(), image, strides, first, out);
    }

    pub(super) fn pad_lines_on(
        &self,
        isa: Isa,
        image: &[f32],
        strides: [usize; 2],
        first: usize,
        out: &mut [f32],
    ) {
        let Shape { window: Window { input, pads, .. }, channels, .. } = self.shape;
        let [_, lines, width] = self.window.input;
        if self.workspace_len == 0 {
            return;
        }
        let width_inside = input[2].min(width.saturating_sub(pads[2]));
        for (line, out) in (first..).zip(out.chunks_exact_mut(width * channels)) {
            let position = [line / lines, line % lines];
            let inner_position =
                [0, 1].map(|i| position[i].checked_sub(pads[i]).filter(|&x| x < input[i]));
            let ([Some(plane), Some(line)], 1..) = (inner_position, width_inside) else {
                out.fill(0.0);
                continue;
            };
            let (before, remaining) = out.split_at_mut(pads[2].min(width) * channels);
            let (pixels, after) = remaining.split_at_mut(width_inside * channels);
            before.fill(0.0);
            after.fill(0.0);
            let source = &image[(plane * input[1] + line) * input[2] * strides[0]..];
            dispatch(isa, Pixels { source, strides, channels, to: pixels });
        }
    }

    /// Computes the output pixels `rows`; `c` and the residual start at the first of them.
    ///
    /// `a` is the image, with a pixel stride of `lda`; or the padded copy if there is one, and then `lda` is ignored.
    /// Output pixels have a stride of `ldc`, at least `groups * outputs`. The table and the packed weights must come
    /// from this plan; with others the result is unspecified.
    ///
    /// # Panics
    ///
    /// Panics if `rows` exceeds [`Self::rows`], or a slice is too short.
    #[expect(clippy::too_many_arguments, reason = "three matrices and what is done to them")]
    pub fn run(
        &self,
        a: &[f32],
        lda: usize,
        table: &[u32],
        packed: &[f32],
        rows: Range<usize>,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        let Shape { channels, outputs, groups, .. } = self.shape;
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows are not of the output");
        let (packed, zeros) = packed[..self.packed_len()].split_at(self.weights_len);
        let (lda, channels) = match self.algorithm {
            Algorithm::Gemm => return self.product(a, lda, packed, rows, c, ldc, epilogue),
            Algorithm::Indirect => (lda, channels),
            Algorithm::IndirectRows => (channels, channels * self.shape.window.kernel[2]),
        };
        let table = &table[rows.start * self.taps..rows.end * self.taps];
        let row_map = RowMap::lines(self.window.output[2].max(1), rows.start);
        let indirect =
            IndirectA { a, lda, table, taps: self.taps, channels, groups, zeros, row_map };
        self.kernels.igemm(&indirect, rows.len(), packed, outputs, c, ldc, epilogue);
    }

    /// Runs [`Algorithm::Gemm`].
    #[expect(clippy::too_many_arguments, reason = "those of `run`")]
    fn product(
        &self,
        a: &[f32],
        lda: usize,
        packed: &[f32],
        rows: Range<usize>,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        let Shape { channels: k, outputs: n, groups, .. } = self.shape;
        if rows.is_empty() || n == 0 {
            return;
        }
        assert!(lda.checked_mul(rows.end).is_some(), "the image exceeds the address space");
        assert!(ldc >= groups * n || rows.len() == 1, "output pixels overlap");
        let len = self.weights_len / groups.max(1);
        for group in 0..groups {
            let a = a.get(rows.start * lda + group * k..).unwrap_or(&[]);
            let packed = &packed[group * len..];
            let bias = epilogue.bias.map(|bias| &bias[group * n..]);
            let residual = epilogue.residual.map(|(data, ld)| (&data[group * n..], ld));
            let epilogue = Epilogue { bias, residual, ..*epilogue };
            self.kernels.gemm(
                a,
                lda,
                rows.len(),
                k,
                packed,
                n,
                &mut c[group * n..],
                ldc,
                &epilogue,
            );
        }
    }
}

/// A copy of strided pixels with strided channels to contiguous memory.
struct Pixels<'a> {
    source: &'a [f32],
    strides: [usize; 2],
    channels: usize,
    to: &'a mut [f32],
}

impl SimdOp for Pixels<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, _: S) {
        let Self { source, strides, channels, to } = self;
        let planes = |channel: usize| &source[channel * strides[1]..];
        match (strides, channels) {
            ([step, 1], _) if step == channels => to.copy_from_slice(&source[..to.len()]),
            ([1, _], 1) => to.copy_from_slice(&source[..to.len()]),
            ([1, _], 2) => interleave([0, 1].map(planes), to),
            ([1, _], 3) => interleave([0, 1, 2].map(planes), to),
            ([1, _], 4) => interleave([0, 1, 2, 3].map(planes), to),
            _ => {
                for (pixel, to) in to.chunks_exact_mut(channels).enumerate() {
                    for (channel, to) in to.iter_mut().enumerate() {
                        *to = source[pixel * strides[0] + channel * strides[1]];
                    }
                }
            }
        }
    }
}

/// Interleaves `N` planes into pixels of `N` channels.
#[inline(always)]
fn interleave<const N: usize>(planes: [&[f32]; N], pixels: &mut [f32]) {
    let (pixels, _) = pixels.as_chunks_mut::<N>();
    let planes = planes.map(|plane| &plane[..pixels.len()]);
    for (x, pixel) in pixels.iter_mut().enumerate() {
        *pixel = planes.map(|plane| plane[x]);
    }
}

/// Returns the micro-kernels in use, or those of AVX2 if one of its registers holds all outputs of a group: it loads
/// more of its smaller registers per cycle.
pub(super) fn kernels_for_outputs(outputs: usize) -> &'static MicroKernels {
    kernels(if outputs <= 8 { isa().min(Isa::Avx2) } else { isa() })
}

/// Chooses the algorithm for a shape.
fn algorithm(shape: &Shape) -> Algorithm {
    let Window { input, output, kernel, strides, dilations, pads } = shape.window;
    let is_pointwise = kernel == [1; 3] && strides == [1; 3] && pads == [0; 3] && input == output;
    let has_runs = shape.groups == 1 && kernel[2] > 1 && dilations[2] == 1 && shape.channels > 0;
    match (is_pointwise, has_runs && shape.channels <= MAX_RUN_CHANNELS) {
        (true, _) => Algorithm::Gemm,
        (false, true) => Algorithm::IndirectRows,
        (false, false) => Algorithm::Indirect,
    }
}

/// Returns the window over the padded copy of an image, which contains all positions that windows read. The taps of
/// this window are kernel rows.
fn padded(window: &Window) -> Option<Window> {
    let mut padded = Window { pads: [0; 3], ..*window };
    for axis in 0..3 {
        let Window { output, kernel, strides, dilations, .. } = *window;
        let last_window = output[axis].saturating_sub(1).checked_mul(strides[axis])?;
        let last_tap = kernel[axis].saturating_sub(1).checked_mul(dilations[axis])?;
        padded.input[axis] = last_window.checked_add(last_tap)?.checked_add(1)?;
    }
    padded.kernel[2] = 1;
    padded.input_len()?;
    Some(padded)
}
