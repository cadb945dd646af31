//! Transposed convolutions: a convolution per phase of the strides, so that nothing is scattered and no
//! zeros are multiplied.
//!
//! Output pixels whose coordinates leave the same remainders by the strides, a phase, are met by the same
//! taps, and next to each other in a phase they read input pixels next to each other.

use std::ops::Range;

use super::plan::narrow;
use super::{Shape, Strides};
use crate::gemm_f32::{Epilogue, IndirectA, MicroKernels, RowMap, Stored};
use crate::indirect::{PADDING, Window};

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

/// Output pixels that leave the same remainders, and where their table and weights start.
#[derive(Clone, Copy)]
struct Phase {
    /// The remainders.
    at: [usize; 3],
    /// Output pixels along each axis.
    extents: [usize; 3],
    taps: usize,
    table: usize,
    packed: usize,
    /// Elements of the packed weights of all groups.
    packed_len: usize,
}

impl Phase {
    fn table_len(&self) -> usize {
        self.extents.iter().product::<usize>() * self.taps
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
        let Window { output, kernel, strides, dilations, pads, .. } = window;
        if strides.contains(&0) {
            return None;
        }
        for axis in 0..3 {
            output[axis].checked_add(pads[axis])?.checked_add(strides[axis])?;
            kernel[axis].checked_mul(dilations[axis])?;
        }
        let zeros = groups.checked_mul(channels)?;
        let padded = outputs.checked_next_multiple_of(64)?;
        let most = groups.checked_mul(padded)?.checked_mul(channels)?;
        most.checked_mul(window.taps()?)?.checked_add(zeros)?;
        window.table_len()?;
        window.taps()?.checked_mul(channels)?.checked_mul(padded)?;
        let mut plan = Self { kernels, shape: *shape, table_len: 0, weights_len: 0 };
        let (table, packed) = plan.phases().fold((0, 0), |(table, packed), phase| {
            (table + phase.table_len(), packed + phase.packed_len)
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
        let mut entries = table.iter_mut();
        for phase in self.phases() {
            for place in positions(phase.extents) {
                for tap in self.taps(phase.at) {
                    if let Some(entry) = entries.next() {
                        *entry = self.pixel(phase.at, place, tap);
                    }
                }
            }
        }
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
        for phase in self.phases() {
            let taps = self.taps(phase.at).map(|[d, r, c]| (d * rows + r) * cols + c);
            let out = &mut packed[phase.packed..][..phase.packed_len];
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
        for phase in self.phases() {
            let [_, rows, cols] = phase.extents;
            let [from, to] = [lines.start, lines.end].map(|line| self.before(&phase, line) * cols);
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
            let taps = phase.taps;
            let table = &table[phase.table + from * taps..phase.table + to * taps];
            let indirect = IndirectA { a, lda, table, taps, channels, groups, zeros, row_map };
            let packed = &packed[phase.packed..][..phase.packed_len];
            self.kernels.igemm(&indirect, to - from, packed, outputs, c, ldc, epilogue);
        }
    }

    /// Lines of a phase before an output line.
    fn before(&self, phase: &Phase, line: usize) -> usize {
        let Window { output: [_, height, _], strides, .. } = self.shape.window;
        let (plane, line) = (line / height, line % height);
        let count =
            |axis: usize, end: usize| end.saturating_sub(phase.at[axis]).div_ceil(strides[axis]);
        let rest = if plane % strides[0] == phase.at[0] { count(1, line) } else { 0 };
        count(0, plane) * phase.extents[1] + rest
    }

    /// The phases that have output pixels.
    fn phases(&self) -> impl Iterator<Item = Phase> {
        let Shape { window, channels, outputs, groups } = self.shape;
        let Window { output, strides, .. } = window;
        let (mut table, mut packed) = (0, 0);
        let ends = [0, 1, 2].map(|axis| strides[axis].min(output[axis]));
        let plan = *self;
        positions(ends).map(move |at| {
            let extents = [0, 1, 2].map(|axis| (output[axis] - at[axis]).div_ceil(strides[axis]));
            let taps = (0..3).map(|axis| plan.axis_taps(at, axis).count()).product();
            let packed_len = groups * plan.kernels.packed_len(taps * channels, outputs);
            let phase = Phase { at, extents, taps, table, packed, packed_len };
            table += phase.table_len();
            packed += packed_len;
            phase
        })
    }

    /// The taps that meet a phase.
    fn taps(&self, at: [usize; 3]) -> impl Iterator<Item = [usize; 3]> + Clone {
        let [outer, middle, inner] = [0, 1, 2].map(|axis| self.axis_taps(at, axis));
        outer.flat_map(move |d| {
            let inner = inner.clone();
            middle.clone().flat_map(move |r| inner.clone().map(move |c| [d, r, c]))
        })
    }

    /// The taps along an axis that meet a phase.
    fn axis_taps(&self, at: [usize; 3], axis: usize) -> impl Iterator<Item = usize> + Clone {
        let Window { kernel, strides, dilations, pads, .. } = self.shape.window;
        let (stride, dilation) = (strides[axis], dilations[axis]);
        let rest = (at[axis] + pads[axis]) % stride;
        (0..kernel[axis]).filter(move |tap| tap * dilation % stride == rest)
    }

    /// The input pixel that a tap takes to a place of a phase.
    fn pixel(&self, at: [usize; 3], place: [usize; 3], tap: [usize; 3]) -> u32 {
        let Window { input, strides, dilations, pads, .. } = self.shape.window;
        let mut pixel = 0;
        for axis in 0..3 {
            let padded = at[axis] + place[axis] * strides[axis] + pads[axis];
            match padded.checked_sub(tap[axis] * dilations[axis]).map(|x| x / strides[axis]) {
                Some(place) if place < input[axis] => pixel = pixel * input[axis] + place,
                _ => return PADDING,
            }
        }
        u32::try_from(pixel).unwrap_or(PADDING)
    }
}

/// Every position within extents, the last axis fastest.
fn positions([outer, middle, inner]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> + Clone {
    (0..outer).flat_map(move |d| (0..middle).flat_map(move |r| (0..inner).map(move |c| [d, r, c])))
}
