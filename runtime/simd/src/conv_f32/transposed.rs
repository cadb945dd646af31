//! `f32` transposed convolution. Its output pixels are divided into phases, by the remainders of their coordinates by
//! the strides. Each phase is an ordinary convolution with some of the taps, so that nothing is scattered, and no zeros
//! between input pixels are multiplied.

use std::ops::Range;

use super::plan::kernels_for_outputs;
use super::{Shape, Strides};
use crate::gemm_f32::{Epilogue, IndirectA, MicroKernels, RowMap, Stored};
use crate::indirect::{Phase, Window};

/// A transposed convolution ready to run, except for its memory.
///
/// The window's `pads` crop output pixels at the start. Tap `k` of input pixel `i` contributes to output pixel `i *
/// stride + k * dilation - pad`, if that exists. Output pixels that no tap reaches are valid.
#[derive(Clone, Copy, Debug)]
pub struct Transposed {
    kernels: &'static MicroKernels,
    shape: Shape,
    table_len: usize,
    /// Elements of the packed weights before the row of zeros.
    weights_len: usize,
}

/// A phase, and the offsets of its table and weights.
#[derive(Clone, Copy)]
struct Part {
    phase: Phase,
    /// Taps of the phase.
    taps: usize,
    /// Offset in the table.
    table: usize,
    /// Offset in the packed weights.
    packed: usize,
    /// Elements of the packed weights of all groups.
    packed_len: usize,
}

impl Part {
    fn table_len(&self) -> usize {
        self.phase.rows() * self.taps
    }
}

impl Transposed {
    /// Plans for the instruction set in use; `None` if sizes or positions overflow, there are more pixels than a table
    /// can index, or a stride is 0.
    pub fn new(shape: &Shape) -> Option<Self> {
        Self::with_kernels(kernels_for_outputs(shape.outputs), shape)
    }

    /// Plans for these micro-kernels.
    pub fn with_kernels(kernels: &'static MicroKernels, shape: &Shape) -> Option<Self> {
        let Shape { window, channels, outputs, groups } = *shape;
        if !window.has_phases() {
            return None;
        }
        let zeros = groups.checked_mul(channels)?;
        let padded = outputs.checked_next_multiple_of(64)?;
        let max_weights = groups.checked_mul(padded)?.checked_mul(channels)?;
        max_weights.checked_mul(window.taps()?)?.checked_add(zeros)?;
        window.taps()?.checked_mul(channels)?.checked_mul(padded)?;
        let mut plan = Self { kernels, shape: *shape, table_len: 0, weights_len: 0 };
        let (table, packed) = plan.parts().fold((0, 0), |(table, packed), part| {
            (table + part.table_len(), packed + part.packed_len)
        });
        (plan.table_len, plan.weights_len) = (table, packed);
        Some(plan)
    }

    /// Returns the number of output lines: rows of pixels of all planes, of which a call computes a range.
    pub fn lines(&self) -> usize {
        self.shape.window.output[0] * self.shape.window.output[1]
    }

    /// Returns the entries of the table.
    pub fn table_len(&self) -> usize {
        self.table_len
    }

    /// Fills the table. Returns false if `table` does not have [`Self::table_len`] entries.
    #[must_use]
    pub fn fill(&self, table: &mut [u32]) -> bool {
        if table.len() != self.table_len {
            return false;
        }
        let window = self.shape.window;
        let entries = window.phases().flat_map(|phase| window.phase_table(phase));
        table.iter_mut().zip(entries).for_each(|(entry, pixel)| *entry = pixel);
        true
    }

    /// Returns the elements of the packed weights.
    pub fn packed_len(&self) -> usize {
        self.weights_len + self.shape.groups * self.shape.channels
    }

    /// Packs the weights into the first [`Self::packed_len`] elements of `out`. Convolutions are fastest if it is
    /// aligned to 64 bytes.
    ///
    /// # Panics
    ///
    /// Panics if `weights` or `out` is too short.
    pub fn pack<T: Stored>(&self, weights: &[T], strides: &Strides, out: &mut [f32]) {
        let [_, rows, cols] = self.shape.window.kernel;
        let (packed, zeros) = out[..self.packed_len()].split_at_mut(self.weights_len);
        for part in self.parts() {
            let Part { phase, taps, .. } = part;
            let taps = (0..taps).map(|tap| phase.tap(tap));
            let taps = taps.map(|[d, r, c]| (d * rows + r) * cols + c);
            let out = &mut packed[part.packed..][..part.packed_len];
            strides.pack(self.kernels, &self.shape, weights, &taps, out);
        }
        zeros.fill(0.0);
    }

    /// Computes the output lines `lines`; `c` and the residual start at the first pixel of them.
    ///
    /// `a` is the image, with a pixel stride of `lda`. Output pixels have a stride of `ldc`, at least `groups *
    /// outputs`. The table and the packed weights must come from this plan; with others the result is unspecified.
    ///
    /// # Panics
    ///
    /// Panics if `lines` exceeds [`Self::lines`], or a slice is too short.
    #[expect(clippy::too_many_arguments, reason = "three matrices and what is done to them")]
    pub fn run(
        &self,
        a: &[f32],
        lda: usize,
        table: &[u32],
        packed: &[f32],
        lines: Range<usize>,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        let Shape { window, channels, outputs, groups } = self.shape;
        assert!(
            lines.start <= lines.end && lines.end <= self.lines(),
            "lines are not of the output"
        );
        let (packed, zeros) = packed[..self.packed_len()].split_at(self.weights_len);
        let table = &table[..self.table_len];
        let Window { output: [_, height, width], strides, .. } = window;
        for Part { phase, taps, table: table_start, packed: packed_start, packed_len } in
            self.parts()
        {
            let [_, rows, cols] = phase.extents;
            let [first_row, end_row] =
                [lines.start, lines.end].map(|line| window.lines_before(&phase, line) * cols);
            let row_map = RowMap {
                width: cols,
                lines: rows,
                steps: [
                    strides[0].saturating_mul(height * width),
                    strides[1].saturating_mul(width),
                    strides[2],
                ],
                first: first_row,
                start: (phase.remainders[0] * height + phase.remainders[1]) * width
                    + phase.remainders[2],
                origin: lines.start * width,
            };
            let table = &table[table_start + first_row * taps..table_start + end_row * taps];
            let indirect = IndirectA { a, lda, table, taps, channels, groups, zeros, row_map };
            let packed = &packed[packed_start..][..packed_len];
            self.kernels.igemm(&indirect, end_row - first_row, packed, outputs, c, ldc, epilogue);
        }
    }

    /// Yields the phases that have output pixels.
    fn parts(&self) -> impl Iterator<Item = Part> {
        let Shape { window, channels, outputs, groups } = self.shape;
        let (mut table, mut packed) = (0, 0);
        let plan = *self;
        window.phases().map(move |phase| {
            let taps = phase.taps();
            let packed_len = groups * plan.kernels.packed_len(taps * channels, outputs);
            let part = Part { phase, taps, table, packed, packed_len };
            table += part.table_len();
            packed += packed_len;
            part
        })
    }
}
