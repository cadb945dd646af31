//! Transposed convolutions: a convolution per phase of the strides, so that nothing is scattered and no
//! zeros are multiplied.

use std::ops::Range;

use super::plan::narrow;
use super::{Shape, Strides};
use crate::gemm_f32::{Epilogue, IndirectA, MicroKernels, RowMap, Stored};
use crate::indirect::{Phase, Window};

/// A transposed convolution ready to run, but for its memory.
///
/// Of its window, `pads` are the output pixels cut off in front, and tap `k` of input pixel `i` goes to output
/// pixel `i * stride + k * dilation - pad` if there is one. Output pixels beyond all taps are as good as any
/// other.
#[derive(Clone, Copy, Debug)]
pub struct Transposed {
    kernels: &'static MicroKernels,
    shape: Shape,
    table_len: usize,
    /// Elements of the packed weights before the row of zeros.
    weights_len: usize,
}

/// A phase, and where its table and weights start.
#[derive(Clone, Copy)]
struct Part {
    phase: Phase,
    taps: usize,
    table: usize,
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
    /// A plan for the instruction set in use; none if a size or a position is beyond memory, there are more
    /// pixels than a table can name, or a stride is 0.
    pub fn new(shape: &Shape) -> Option<Self> {
        Self::of(narrow(shape.outputs), shape)
    }

    /// A plan for these micro-kernels.
    pub fn of(kernels: &'static MicroKernels, shape: &Shape) -> Option<Self> {
        let Shape { window, channels, outputs, groups } = *shape;
        if !window.has_phases() {
            return None;
        }
        let zeros = groups.checked_mul(channels)?;
        let padded = outputs.checked_next_multiple_of(64)?;
        let most = groups.checked_mul(padded)?.checked_mul(channels)?;
        most.checked_mul(window.taps()?)?.checked_add(zeros)?;
        window.taps()?.checked_mul(channels)?.checked_mul(padded)?;
        let mut plan = Self { kernels, shape: *shape, table_len: 0, weights_len: 0 };
        let (table, packed) = plan.parts().fold((0, 0), |(table, packed), part| {
            (table + part.table_len(), packed + part.packed_len)
        });
        (plan.table_len, plan.weights_len) = (table, packed);
        Some(plan)
    }

    /// Output lines: rows of pixels of all planes, which a call takes a range of.
    pub fn lines(&self) -> usize {
        self.shape.window.output[0] * self.shape.window.output[1]
    }

    /// Entries of the table.
    pub fn table_len(&self) -> usize {
        self.table_len
    }

    /// Fills the table. Returns whether it could: `table` must have [`Self::table_len`] entries.
    #[must_use]
    pub fn fill(&self, table: &mut [u32]) -> bool {
        if table.len() != self.table_len {
            return false;
        }
        let window = self.shape.window;
        let all = window.phases().flat_map(|phase| window.phase_table(phase));
        table.iter_mut().zip(all).for_each(|(entry, pixel)| *entry = pixel);
        true
    }

    /// Elements of the packed weights.
    pub fn packed_len(&self) -> usize {
        self.weights_len + self.shape.groups * self.shape.channels
    }

    /// Packs the weights into the first [`Self::packed_len`] elements of `out`. Convolutions run best when
    /// that is aligned to 64 bytes.
    ///
    /// # Panics
    ///
    /// If `weights` or `out` is too short.
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

    /// Computes the output lines `lines`, the first pixel of which is the first of `c`, and of the residual.
    ///
    /// `a` is the image, its pixels `lda` elements apart. Output pixels lie `ldc` elements apart, at least
    /// `groups * outputs`. The table and the packed weights are those that this plan has filled; with others
    /// the result is unspecified.
    ///
    /// # Panics
    ///
    /// If `lines` are not within [`Self::lines`], or a slice is too short.
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
        for Part { phase, taps, table: table_at, packed: packed_at, packed_len } in self.parts() {
            let [_, rows, cols] = phase.extents;
            let [from, to] =
                [lines.start, lines.end].map(|line| window.lines_before(&phase, line) * cols);
            let row_map = RowMap {
                width: cols,
                lines: rows,
                steps: [
                    strides[0].saturating_mul(height * width),
                    strides[1].saturating_mul(width),
                    strides[2],
                ],
                first: from,
                start: (phase.at[0] * height + phase.at[1]) * width + phase.at[2],
                origin: lines.start * width,
            };
            let table = &table[table_at + from * taps..table_at + to * taps];
            let indirect = IndirectA { a, lda, table, taps, channels, groups, zeros, row_map };
            let packed = &packed[packed_at..][..packed_len];
            self.kernels.igemm(&indirect, to - from, packed, outputs, c, ldc, epilogue);
        }
    }

    /// The phases that have output pixels.
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
