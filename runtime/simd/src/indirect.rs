//! Indirection tables: the input pixel of each tap of each window. With a table, a convolution is a matrix product that
//! gathers the rows of its left matrix from the image (Dukhan, "The Indirect Convolution Algorithm", 2019).
//!
//! A tap is a spatial position of a kernel. A table has a row for each output pixel and a column for each tap. An entry
//! is the index of an input pixel within one image, row-major over the spatial axes, or [`PADDING`]. A table is the
//! same for all images of a batch, all groups and all element types, and is computed once.
//!
//! `Phase` has the tables of transposed convolutions.

/// The entry of a tap in the padding; a kernel reads its row of zeros instead.
pub const PADDING: u32 = u32::MAX;

/// A window over up to three spatial axes, slowest first; a missing axis has extent 1, kernel 1, stride 1, dilation 1
/// and no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Input pixels along each axis.
    pub input: [usize; 3],
    /// Output pixels along each axis. Windows may extend past the end arbitrarily far.
    pub output: [usize; 3],
    /// Taps along each axis.
    pub kernel: [usize; 3],
    /// Input pixels between windows.
    pub strides: [usize; 3],
    /// Input pixels between taps.
    pub dilations: [usize; 3],
    /// Padding pixels before the first input pixel.
    pub pads: [usize; 3],
}

impl Window {
    /// Returns a window of `taps` adjacent taps that covers its input once.
    pub(super) fn line(taps: usize) -> Self {
        let unit = [1; 3];
        let along = [1, 1, taps];
        Self {
            input: along,
            output: unit,
            kernel: along,
            strides: unit,
            dilations: unit,
            pads: [0; 3],
        }
    }

    /// Returns a window over an image of height and width, with the same padding on each side.
    ///
    /// # Panics
    ///
    /// Panics if the stride is 0.
    pub fn square(input: [usize; 2], kernel: usize, stride: usize, pad: usize) -> Self {
        let output = input.map(|n| ((n + 2 * pad).saturating_sub(kernel)) / stride + 1);
        Self {
            input: [1, input[0], input[1]],
            output: [1, output[0], output[1]],
            kernel: [1, kernel, kernel],
            strides: [1, stride, stride],
            dilations: [1; 3],
            pads: [0, pad, pad],
        }
    }

    /// Returns the input pixels of one image; `None` if a table cannot index them.
    pub fn input_len(&self) -> Option<usize> {
        product(self.input).filter(|&len| u32::try_from(len).is_ok())
    }

    /// Returns the output pixels of one image, which are the rows of its table; `None` on overflow.
    pub fn rows(&self) -> Option<usize> {
        product(self.output)
    }

    /// Returns the taps of a window, which are the columns of its table; `None` on overflow.
    pub fn taps(&self) -> Option<usize> {
        product(self.kernel)
    }

    /// Returns the entries of the table; `None` if that overflows, a pixel exceeds the range of entries, or a position
    /// exceeds `usize`.
    pub fn table_len(&self) -> Option<usize> {
        self.input_len().filter(|_| (0..3).all(|axis| self.reaches(axis)))?;
        self.rows()?.checked_mul(self.taps()?)
    }

    /// Fills the table, row by row. Returns false if `table` does not have [`Self::table_len`] entries.
    #[must_use]
    pub fn fill(&self, table: &mut [u32]) -> bool {
        if self.table_len() != Some(table.len()) {
            return false;
        }
        if table.is_empty() {
            return true;
        }
        let mut entries = table.iter_mut();
        for position in positions(self.output) {
            for tap in positions(self.kernel) {
                if let Some(entry) = entries.next() {
                    *entry = self.pixel(position, tap);
                }
            }
        }
        true
    }

    /// Returns the entry of a tap of the window at an output pixel.
    pub fn pixel(&self, position: [usize; 3], tap: [usize; 3]) -> u32 {
        let mut pixel = 0;
        for axis in 0..3 {
            let padded = position[axis] * self.strides[axis] + tap[axis] * self.dilations[axis];
            match padded.checked_sub(self.pads[axis]) {
                Some(coordinate) if coordinate < self.input[axis] => {
                    pixel = pixel * self.input[axis] + coordinate;
                }
                _ => return PADDING,
            }
        }
        u32::try_from(pixel).unwrap_or(PADDING)
    }

    /// Returns whether the position of the last tap of the last window along an axis fits `usize`.
    fn reaches(&self, axis: usize) -> bool {
        let last_window = self.output[axis].saturating_sub(1).checked_mul(self.strides[axis]);
        let last_tap = self.kernel[axis].saturating_sub(1).checked_mul(self.dilations[axis]);
        matches!((last_window, last_tap), (Some(last_window), Some(last_tap)) if last_window.checked_add(last_tap).is_some())
    }
}

fn product(extents: [usize; 3]) -> Option<usize> {
    extents[0].checked_mul(extents[1])?.checked_mul(extents[2])
}

/// Yields every position within extents, last axis fastest.
fn positions([outer, middle, inner]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> + use<> {
    (0..outer).flat_map(move |d| (0..middle).flat_map(move |r| (0..inner).map(move |c| [d, r, c])))
}

/// A phase of a transposed convolution: the output pixels whose coordinates have the same remainders by the strides.
/// The same taps reach all pixels of a phase, and neighbours in a phase read neighbouring input pixels, so that each
/// phase is an ordinary convolution.
///
/// In a transposed convolution, each input pixel adds to a window of the output: tap `k` of input pixel `i` contributes
/// to output pixel `i * stride + k * dilation - pad`, if that exists. The window's `pads` crop output pixels at the
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// The remainders.
    pub(crate) remainders: [usize; 3],
    /// Output pixels along each axis.
    pub(crate) extents: [usize; 3],
    taps: [AxisTaps; 3],
}

/// The taps along an axis that reach a phase: `count` taps from `first` on, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AxisTaps {
    first: usize,
    step: usize,
    count: usize,
}

impl Phase {
    /// Returns the number of output pixels.
    pub(crate) fn rows(&self) -> usize {
        self.extents.iter().product()
    }

    /// Returns the number of taps that reach it.
    pub(crate) fn taps(&self) -> usize {
        self.taps.iter().map(|taps| taps.count).product()
    }

    /// Returns one of the taps that reach it, last axis fastest.
    pub(crate) fn tap(&self, index: usize) -> [usize; 3] {
        let [_, rows, cols] = self.taps.map(|taps| taps.count.max(1));
        let counts = [index / cols / rows, index / cols % rows, index % cols];
        [0, 1, 2].map(|axis| self.taps[axis].first + counts[axis] * self.taps[axis].step)
    }
}

impl Window {
    /// Returns whether the phases' positions and tables can be computed; false if a stride is 0 or a size overflows.
    pub(crate) fn has_phases(&self) -> bool {
        let is_within = |axis: usize| {
            let end = self.output[axis].checked_add(self.pads[axis]);
            let span = self.kernel[axis].checked_mul(self.dilations[axis]);
            end.and_then(|end| end.checked_add(self.strides[axis])).and(span).is_some()
        };
        !self.strides.contains(&0) && (0..3).all(is_within) && self.table_len().is_some()
    }

    /// Returns a window with the same phases and taps that does not depend on the image size, for keys of packed
    /// weights. The image size matters only if an output has fewer pixels than a stride.
    #[must_use]
    pub fn whatever_the_images(&self) -> Self {
        let with_stride = |operation: fn(usize, usize) -> usize, a: [usize; 3]| {
            [0, 1, 2].map(|remainders| operation(a[remainders], self.strides[remainders]))
        };
        let (output, pads) = (
            with_stride(usize::min, self.output),
            with_stride(|pad, stride| pad % stride.max(1), self.pads),
        );
        Self { input: [1; 3], output, pads, ..*self }
    }

    /// Yields the phases that have output pixels.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Phase> + use<> {
        let window = *self;
        let ends = [0, 1, 2].map(|axis| window.strides[axis].min(window.output[axis]));
        positions(ends).map(move |remainders| window.phase(remainders))
    }

    /// Returns the phase with these remainders.
    fn phase(&self, remainders: [usize; 3]) -> Phase {
        let extent =
            |axis: usize| (self.output[axis] - remainders[axis]).div_ceil(self.strides[axis]);
        let taps = [0, 1, 2].map(|axis| self.axis_taps(remainders[axis], axis));
        Phase { remainders, extents: [0, 1, 2].map(extent), taps }
    }

    /// Returns the taps along an axis that reach output pixels with this remainder.
    fn axis_taps(&self, remainder: usize, axis: usize) -> AxisTaps {
        let (kernel, stride) = (self.kernel[axis], self.strides[axis]);
        let phase_remainder = (remainder + self.pads[axis]) % stride;
        let mut reaching =
            (0..kernel).filter(|tap| tap * self.dilations[axis] % stride == phase_remainder);
        let Some(first) = reaching.next() else {
            return AxisTaps { first: 0, step: 1, count: 0 };
        };
        let step = reaching.next().map_or(kernel, |second| second - first);
        AxisTaps { first, step, count: (kernel - first).div_ceil(step) }
    }

    /// Returns the number of a phase's lines before an output line; lines are counted across all planes.
    pub(crate) fn lines_before(&self, phase: &Phase, line: usize) -> usize {
        let (plane, line) = (line / self.output[1], line % self.output[1]);
        let count = |axis: usize, end: usize| {
            end.saturating_sub(phase.remainders[axis]).div_ceil(self.strides[axis])
        };
        let lines_in_plane =
            if plane % self.strides[0] == phase.remainders[0] { count(1, line) } else { 0 };
        count(0, plane) * phase.extents[1] + lines_in_plane
    }

    /// Yields the table entries of a phase's output pixels, row by row.
    pub(crate) fn phase_table(&self, phase: Phase) -> impl Iterator<Item = u32> + use<> {
        let window = *self;
        let taps = phase.taps();
        positions(phase.extents).flat_map(move |position| {
            (0..taps).map(move |tap| window.phase_pixel(&phase, position, phase.tap(tap)))
        })
    }

    /// Returns the input pixel that a tap connects to a position of a phase.
    fn phase_pixel(&self, phase: &Phase, position: [usize; 3], tap: [usize; 3]) -> u32 {
        let mut pixel = 0;
        for axis in 0..3 {
            let stride = self.strides[axis];
            let padded = phase.remainders[axis] + position[axis] * stride + self.pads[axis];
            match padded.checked_sub(tap[axis] * self.dilations[axis]).map(|x| x / stride) {
                Some(position) if position < self.input[axis] => {
                    pixel = pixel * self.input[axis] + position;
                }
                _ => return PADDING,
            }
        }
        u32::try_from(pixel).unwrap_or(PADDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(window: &Window) -> Vec<u32> {
        let mut table = vec![7; window.table_len().unwrap()];
        assert!(window.fill(&mut table));
        table
    }

    #[test]
    fn taps_in_the_padding_have_the_padding_entry() {
        let table = filled(&Window::square([2, 3], 3, 1, 1));
        assert_eq!(table.len(), 6 * 9);
        let none = PADDING;
        assert_eq!(table[..9], [none, none, none, none, 0, 1, none, 3, 4]);
        assert_eq!(table[5 * 9..], [1, 2, none, 4, 5, none, none, none, none]);
    }

    #[test]
    fn strides_and_dilations_are_in_input_pixels() {
        let window = Window {
            input: [1, 1, 9],
            output: [1, 1, 3],
            kernel: [1, 1, 2],
            strides: [1, 1, 2],
            dilations: [1, 1, 4],
            pads: [0; 3],
        };
        assert_eq!(filled(&window), [0, 4, 2, 6, 4, 8]);
    }

    #[test]
    fn the_slowest_axis_comes_first() {
        let window = Window {
            input: [2, 2, 2],
            output: [1, 1, 1],
            kernel: [2, 2, 2],
            strides: [1; 3],
            dilations: [1; 3],
            pads: [0; 3],
        };
        assert_eq!(filled(&window), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn images_too_large_for_a_table_are_refused() {
        let huge = Window { input: [1 << 20, 1 << 20, 1 << 20], ..Window::square([1, 1], 1, 1, 0) };
        assert_eq!(huge.table_len(), None);
        assert!(!huge.fill(&mut []));
        let far = Window {
            strides: [1, 1, usize::MAX],
            output: [1, 1, 4],
            ..Window::square([1, 1], 1, 1, 0)
        };
        assert!(!far.fill(&mut [0; 4]));
        assert!(!Window::square([4, 4], 3, 1, 1).fill(&mut [0; 3]));
        let none = Window { output: [1, 0, 0], ..Window::square([4, 4], 3, 1, 1) };
        assert!(none.fill(&mut []));
    }

    #[test]
    fn tables_of_windows_without_taps_are_empty() {
        let window =
            Window { output: [1 << 20; 3], kernel: [1, 1, 0], ..Window::square([1, 1], 1, 1, 0) };
        assert!(window.fill(&mut []));
        let window = Window { output: [1 << 60, 1, 0], ..Window::square([1, 1], 1, 1, 0) };
        assert!(window.fill(&mut []));
    }
}
