//! Windows over the output, as transposed convolutions have them, taken apart: output pixels whose coordinates leave the
//! same remainders by the strides, a phase, are met by the same taps, and next to each other in a phase they read
//! input pixels next to each other.
//!
//! Of such a window, `pads` are the output pixels cut off in front, and tap `k` of input pixel `i` goes to output pixel
//! `i * stride + k * dilation - pad` if there is one.

use super::{PADDING, Window, positions};

/// Output pixels that leave the same remainders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// The remainders.
    pub(crate) at: [usize; 3],
    /// Output pixels along each axis.
    pub(crate) extents: [usize; 3],
    taps: [AxisTaps; 3],
}

/// The taps along an axis that meet a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AxisTaps {
    first: usize,
    step: usize,
    count: usize,
}

impl Phase {
    /// Output pixels.
    pub(crate) fn rows(&self) -> usize {
        self.extents.iter().product()
    }

    /// How many taps meet it.
    pub(crate) fn taps(&self) -> usize {
        self.taps.iter().map(|taps| taps.count).product()
    }

    /// One of the taps that meet it, the last axis fastest.
    pub(crate) fn tap(&self, index: usize) -> [usize; 3] {
        let [_, rows, cols] = self.taps.map(|taps| taps.count.max(1));
        let places = [index / cols / rows, index / cols % rows, index % cols];
        [0, 1, 2].map(|axis| self.taps[axis].first + places[axis] * self.taps[axis].step)
    }
}

impl Window {
    /// Whether phases have positions and tables; they have none where a stride is 0.
    pub(crate) fn has_phases(&self) -> bool {
        let is_within = |axis: usize| {
            let end = self.output[axis].checked_add(self.pads[axis]);
            let span = self.kernel[axis].checked_mul(self.dilations[axis]);
            end.and_then(|end| end.checked_add(self.strides[axis])).and(span).is_some()
        };
        !self.strides.contains(&0) && (0..3).all(is_within) && self.table_len().is_some()
    }

    /// A window whose phases are met by the same taps: the images matter only where they have fewer pixels than a stride.
    #[must_use]
    pub fn whatever_the_images(&self) -> Self {
        let each = |of: fn(usize, usize) -> usize, a: [usize; 3]| {
            [0, 1, 2].map(|at| of(a[at], self.strides[at]))
        };
        let (output, pads) =
            (each(usize::min, self.output), each(|pad, stride| pad % stride.max(1), self.pads));
        Self { input: [1; 3], output, pads, ..*self }
    }

    /// The phases that have output pixels.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase> + use<> {
        let window = *self;
        let ends = [0, 1, 2].map(|axis| window.strides[axis].min(window.output[axis]));
        positions(ends).map(move |at| window.phase(at))
    }

    /// The phase of these remainders.
    fn phase(&self, at: [usize; 3]) -> Phase {
        let extent = |axis: usize| (self.output[axis] - at[axis]).div_ceil(self.strides[axis]);
        let taps = [0, 1, 2].map(|axis| self.axis_taps(at[axis], axis));
        Phase { at, extents: [0, 1, 2].map(extent), taps }
    }

    fn axis_taps(&self, at: usize, axis: usize) -> AxisTaps {
        let (kernel, stride) = (self.kernel[axis], self.strides[axis]);
        let rest = (at + self.pads[axis]) % stride;
        let mut meets = (0..kernel).filter(|tap| tap * self.dilations[axis] % stride == rest);
        let Some(first) = meets.next() else {
            return AxisTaps { first: 0, step: 1, count: 0 };
        };
        let step = meets.next().map_or(kernel, |second| second - first);
        AxisTaps { first, step, count: (kernel - first).div_ceil(step) }
    }

    /// Lines of a phase before an output line.
    pub(crate) fn lines_before(&self, phase: &Phase, line: usize) -> usize {
        let (plane, line) = (line / self.output[1], line % self.output[1]);
        let count = |axis: usize, end: usize| {
            end.saturating_sub(phase.at[axis]).div_ceil(self.strides[axis])
        };
        let rest = if plane % self.strides[0] == phase.at[0] { count(1, line) } else { 0 };
        count(0, plane) * phase.extents[1] + rest
    }

    /// The entries of the tables of a phase's output pixels, row by row.
    pub(crate) fn phase_table(&self, phase: Phase) -> impl Iterator<Item = u32> + use<> {
        let window = *self;
        let taps = phase.taps();
        positions(phase.extents).flat_map(move |place| {
            (0..taps).map(move |tap| window.phase_pixel(&phase, place, phase.tap(tap)))
        })
    }

    /// The input pixel that a tap takes to a place of a phase.
    fn phase_pixel(&self, phase: &Phase, place: [usize; 3], tap: [usize; 3]) -> u32 {
        let mut pixel = 0;
        for axis in 0..3 {
            let stride = self.strides[axis];
            let padded = phase.at[axis] + place[axis] * stride + self.pads[axis];
            match padded.checked_sub(tap[axis] * self.dilations[axis]).map(|x| x / stride) {
                Some(place) if place < self.input[axis] => pixel = pixel * self.input[axis] + place,
                _ => return PADDING,
            }
        }
        u32::try_from(pixel).unwrap_or(PADDING)
    }
}
