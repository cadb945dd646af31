//! Transposed convolution of 8-bit values. Its output pixels are divided into phases, by the remainders of their
//! coordinates by the strides. Each phase is an ordinary convolution with some of the taps, so that nothing is
//! scattered, and no zeros between input pixels are multiplied.
//!
//! The sums of a phase's pixels are contiguous rows, phase after phase. The caller requantizes them, and
//! [`Transposed::arrange`] then moves them to their output pixels, when each value has only one byte. If each output
//! pixel is reached by exactly one tap, all taps are columns of a single matrix product instead.

use std::ops::Range;

use super::{Batch, ConvError, Input, Output, Shape, Weights, conv_by};
use crate::gemm_u8::{Depth, GemmError, Lhs, Rhs, gemm_on, kernels, pack_panels};
use crate::indirect::{PADDING, Phase, Window};
use crate::isa::{Isa, isa};

/// A transposed convolution ready to run, except for its memory.
///
/// The window's `pads` crop output pixels at the start. Tap `k` of input pixel `i` contributes to output pixel `i *
/// stride + k * dilation - pad`, if that exists. Output pixels that no tap reaches are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transposed {
    window: Window,
    groups: usize,
    channels: usize,
    outputs: usize,
    /// Whether each output pixel is reached by exactly one tap of one input pixel.
    is_disjoint: bool,
    rows: usize,
    table_len: usize,
    packed_len: usize,
}

/// The convolution of one phase.
struct Part {
    phase: Phase,
    /// Rows of sums.
    rows: Range<usize>,
    /// Offset in the table.
    table: usize,
    /// Elements of the packed weights.
    packed: Range<usize>,
    shape: Shape,
}

impl Transposed {
    /// Plans for these channels per group; `None` if sizes or positions overflow, there are more pixels than a table
    /// can index, or a stride is 0.
    pub fn new(window: Window, groups: usize, channels: usize, outputs: usize) -> Option<Self> {
        let taps = window.taps().filter(|_| window.has_phases())?;
        window.rows()?.checked_mul(groups.checked_mul(outputs)?)?;
        // No phase has more taps than the kernel.
        let whole = Shape { groups, channels, outputs, taps: taps.max(1), run: 1 };
        whole.packed_len()?.checked_mul(taps.max(1))?;
        let is_disjoint = groups == 1 && reads_each_pixel_once(&window);
        if is_disjoint {
            let shape = Shape { outputs: outputs.checked_mul(taps)?, taps: 1, ..whole };
            let (rows, packed_len) = (window.input_len()?, shape.packed_len()?);
            let table_len = 0;
            return Some(Self {
                window,
                groups,
                channels,
                outputs,
                is_disjoint,
                rows,
                table_len,
                packed_len,
            });
        }
        let plan = Self {
            window,
            groups,
            channels,
            outputs,
            is_disjoint,
            rows: 0,
            table_len: 0,
            packed_len: 0,
        };
        let part_ends = |part: Part| {
            (part.rows.end, part.table + part.rows.len() * part.shape.taps, part.packed.end)
        };
        let (rows, table_len, packed_len) = plan.parts().last().map_or((0, 0, 0), part_ends);
        Some(Self { rows, table_len, packed_len, ..plan })
    }

    /// Returns the number of rows of sums of all phases.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns of sums per output channel. Callers must repeat the whole slices of scales, zero points and
    /// biases per output channel that often.
    pub fn repeats(&self) -> usize {
        if self.is_disjoint { self.window.kernel.iter().product() } else { 1 }
    }

    /// Returns the number of columns of sums.
    pub fn columns(&self) -> usize {
        self.groups * self.outputs * self.repeats()
    }

    /// Returns whether rows of sums are output pixels in order, so that [`arrange`](Self::arrange) is not needed.
    pub fn is_in_order(&self) -> bool {
        self.window.strides == [1; 3]
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
        // Output pixels that no tap reaches get one tap in the padding.
        table.fill(PADDING);
        for Part { phase, table: table_start, .. } in self.parts() {
            let entries = table.get_mut(table_start..).unwrap_or(&mut []).iter_mut();
            entries.zip(self.window.phase_table(phase)).for_each(|(entry, pixel)| *entry = pixel);
        }
        true
    }

    /// Returns the elements of a row of padding.
    pub fn padding_len(&self) -> usize {
        self.channels.next_multiple_of(4)
    }

    /// Returns a window with the same packed weights that does not depend on the image size, for keys of packed
    /// weights.
    pub fn window_of_weights(&self) -> Window {
        let window = self.window.whatever_the_images();
        // The output has at most one stride along each axis. With one input pixel, the taps stay disjoint if they were;
        // with two, they never are.
        Window { input: if self.is_disjoint { [1; 3] } else { [2; 3] }, ..window }
    }

    /// Returns the elements of the packed weights.
    pub fn packed_len(&self) -> usize {
        self.packed_len
    }

    /// Packs weights in ONNX's order: input channels of all groups, output channels of one, taps. Returns false if a
    /// slice does not have the length that the shape requires.
    #[must_use]
    pub fn pack(&self, weights: &[i8], to: &mut [i8]) -> bool {
        let Self { window, groups, channels, outputs, .. } = *self;
        let [_, rows, cols] = window.kernel;
        let taps: usize = window.kernel.iter().product();
        let inputs = groups.checked_mul(channels).and_then(|len| len.checked_mul(outputs));
        if inputs.and_then(|len| len.checked_mul(taps)) != Some(weights.len())
            || to.len() != self.packed_len
        {
            return false;
        }
        let weight = |channel: usize, output: usize, tap: usize| {
            weights[(channel * outputs + output) * taps + tap]
        };
        if self.is_disjoint {
            let depth = Depth { taps: 1, channels };
            pack_panels(depth, outputs * taps, to, |column, _, channel| {
                weight(channel, column % outputs, column / outputs)
            });
            return true;
        }
        for Part { phase, packed, shape, .. } in self.parts() {
            let (to, depth) = (&mut to[packed], Depth { taps: shape.taps, channels });
            let len = (to.len() / groups.max(1)).max(1);
            for (group, to) in to.chunks_exact_mut(len).enumerate() {
                pack_panels(depth, outputs, to, |output, tap, channel| {
                    if phase.taps() == 0 {
                        return 0;
                    }
                    let [d, r, c] = phase.tap(tap);
                    weight(group * channels + channel, output, (d * rows + r) * cols + c)
                });
            }
        }
        true
    }

    /// Computes rows of sums; `output` starts at the first of them, with a stride of `stride`.
    ///
    /// The table and the packed weights must come from this plan; with others the result is unspecified.
    ///
    /// # Errors
    ///
    /// Returns an error like [`conv`](super::conv); then the contents of the output are unspecified.
    #[expect(clippy::too_many_arguments, reason = "those of `conv`, and which rows")]
    pub fn run(
        &self,
        rows: Range<usize>,
        input: &Input<'_, u8>,
        (packed, zero_points): (&[i8], &[i8]),
        table: &[u32],
        bias: &[i32],
        output: Output<'_>,
        stride: usize,
    ) -> Result<(), ConvError> {
        self.run_on(isa(), rows, input, (packed, zero_points), table, bias, output, stride)
    }

    /// Like [`Self::run`] with an instruction set, or the best that this machine has if that is less.
    ///
    /// # Errors
    ///
    /// Returns an error like `run`.
    #[expect(clippy::too_many_arguments, reason = "those of `run`, and the instruction set")]
    pub fn run_on(
        &self,
        isa: Isa,
        rows: Range<usize>,
        input: &Input<'_, u8>,
        (packed, zero_points): (&[i8], &[i8]),
        table: &[u32],
        bias: &[i32],
        mut output: Output<'_>,
        stride: usize,
    ) -> Result<(), ConvError> {
        if table.len() != self.table_len || rows.end > self.rows {
            return Err(ConvError::Table);
        }
        if packed.len() != self.packed_len {
            return Err(ConvError::Weights);
        }
        let Input { data, stride: pixel, zero_point, .. } = *input;
        if self.is_disjoint {
            let data = rows.start.checked_mul(pixel).and_then(|first| data.get(first..));
            let data = data.ok_or(ConvError::Table)?;
            let lhs = Lhs { data, rows: rows.len(), stride: pixel, zero_point };
            let rhs = Rhs { packed, k: self.channels, n: self.columns(), zero_points };
            return Ok(gemm_on(isa, &lhs, &rhs, bias, output, stride)?);
        }
        for Part { rows: part_rows, table: table_start, packed: packed_range, shape, .. } in
            self.parts()
        {
            let (first, end) = (rows.start.max(part_rows.start), rows.end.min(part_rows.end));
            if first < end {
                let entry = |row: usize| table_start + (row - part_rows.start) * shape.taps;
                let table = &table[entry(first)..entry(end)];
                let weights = Weights { shape, packed: &packed[packed_range], zero_points };
                let offset = (first - rows.start).checked_mul(stride).ok_or(ConvError::Output)?;
                let output = output.advanced(offset).ok_or(ConvError::Output)?;
                conv_by(kernels(isa), &Batch::ONE, input, &weights, table, bias, output, stride)?;
            }
        }
        Ok(())
    }

    /// Reorders the rows of all phases into output lines `lines`, which are rows of pixels of all planes; `to` starts
    /// at their first pixel, with a pixel stride of `pitch`.
    ///
    /// # Panics
    ///
    /// Panics if `lines` exceeds those of the output, or a slice is too short.
    pub fn arrange<T: Copy>(&self, sums: &[T], lines: Range<usize>, to: &mut [T], pitch: usize) {
        let Window { output: [_, height, width], strides, .. } = self.window;
        let (columns, channels) = (self.columns(), self.groups * self.outputs);
        if channels == 0 || width == 0 {
            return;
        }
        // If output pixels are contiguous, so are the taps of a line on both sides.
        let is_joined = self.is_disjoint && pitch == channels;
        let (unit, phases) =
            if is_joined { (channels * strides[2], 1) } else { (channels, strides[2].min(width)) };
        for (line, to) in lines.zip(to.chunks_mut(width * pitch)) {
            for column in 0..phases {
                let position = [line / height, line % height, column];
                let sums = sums[self.sums_index(position)..].chunks(columns);
                let to = to[column * pitch..].chunks_mut(strides[2] * pitch);
                if unit == 1 {
                    to.zip(sums).for_each(|(to, sums)| to[0] = sums[0]);
                } else {
                    to.zip(sums).for_each(|(to, sums)| to[..unit].copy_from_slice(&sums[..unit]));
                }
            }
        }
    }

    /// Returns the index of the sums of an output pixel that is the first of its phase in its line.
    fn sums_index(&self, position: [usize; 3]) -> usize {
        let Window { input, output, kernel, strides, .. } = self.window;
        let quotients = [0, 1, 2].map(|axis| position[axis] / strides[axis]);
        let remainders = [0, 1, 2].map(|axis| position[axis] % strides[axis]);
        if self.is_disjoint {
            let row = (quotients[0] * input[1] + quotients[1]) * input[2];
            let tap = (remainders[0] * kernel[1] + remainders[1]) * kernel[2] + remainders[2];
            return row * self.columns() + tap * self.outputs;
        }
        // Output pixels of all phases before this one, by axis.
        let pixels_before = |axis: usize| {
            let (extent, stride) = (output[axis], strides[axis]);
            remainders[axis] * (extent / stride) + remainders[axis].min(extent % stride)
        };
        let extent = |axis: usize| (output[axis] - remainders[axis]).div_ceil(strides[axis]);
        let phase = (pixels_before(0) * output[1] + extent(0) * pixels_before(1)) * output[2]
            + extent(0) * extent(1) * pixels_before(2);
        (phase + (quotients[0] * extent(1) + quotients[1]) * extent(2)) * self.columns()
    }

    /// Yields the convolutions of all phases.
    fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let Self { window, groups, channels, outputs, is_disjoint, .. } = *self;
        let (mut row, mut table, mut packed) = (0, 0, 0);
        window.phases().filter(move |_| !is_disjoint).map(move |phase| {
            let shape = Shape { groups, channels, outputs, taps: phase.taps().max(1), run: 1 };
            // The length exists, as it does for all taps together.
            let len = shape.packed_len().unwrap_or(0);
            let part = Part {
                phase,
                rows: row..row + phase.rows(),
                table,
                packed: packed..packed + len,
                shape,
            };
            row += phase.rows();
            table += phase.rows() * shape.taps;
            packed += len;
            part
        })
    }
}

/// Returns whether each output pixel is reached by exactly one tap of one input pixel.
fn reads_each_pixel_once(window: &Window) -> bool {
    let Window { input, output, kernel, strides, dilations, pads } = *window;
    (0..3).all(|axis| {
        kernel[axis] == strides[axis]
            && (dilations[axis] == 1 || kernel[axis] == 1)
            && pads[axis] == 0
            && input[axis].checked_mul(strides[axis]) == Some(output[axis])
    })
}

impl From<GemmError> for ConvError {
    fn from(error: GemmError) -> Self {
        match error {
            GemmError::TooDeep => Self::TooDeep,
            GemmError::Lhs => Self::Table,
            GemmError::Rhs => Self::Weights,
            GemmError::Columns => Self::Columns,
            GemmError::Output => Self::Output,
        }
    }
}
