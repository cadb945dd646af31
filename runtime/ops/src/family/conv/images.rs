//! The input and output images of a convolution.

use udo_api::{Element, ExecError, Parallel};
use udo_simd::rows::{transpose_grain, transpose_part};
use udo_simd::{Bits, indirect};

/// Images with channels last, as the primitives take them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images {
    pub(crate) window: indirect::Window,
    pub(crate) batch: usize,
    /// Channels of all groups: of an input image, of an output image.
    pub(crate) channels: [usize; 2],
    /// Pixels of an input image, of an output image.
    pub(crate) pixels: [usize; 2],
    /// Rows of an output image.
    pub(crate) lines: usize,
    /// Multiply-adds per image.
    pub(crate) work: usize,
}

impl Images {
    /// Returns the elements of an input image and of an output image.
    pub(crate) fn lens(&self) -> [usize; 2] {
        [0, 1].map(|side| self.channels[side] * self.pixels[side])
    }

    /// Returns the pixels of an output row.
    pub(crate) fn line_pixels(&self) -> usize {
        self.pixels[1] / self.lines.max(1)
    }

    /// Converts an input image from channels second to channels last.
    pub(crate) fn put_channels_last<T: Element + Bits>(
        &self,
        parallel: Parallel<'_>,
        x: &[T],
        y: &mut [T],
    ) -> Result<(), ExecError> {
        transpose(parallel, x, [self.channels[0], self.pixels[0]], y)
    }

    /// Converts an output image from channels last to channels second.
    pub(crate) fn put_channels_second<T: Element + Bits>(
        &self,
        parallel: Parallel<'_>,
        x: &[T],
        y: &mut [T],
    ) -> Result<(), ExecError> {
        transpose(parallel, x, [self.pixels[1], self.channels[1]], y)
    }
}

/// `y[j, i] = x[i, j]` for `rows` rows of `cols` elements of `x`, divided among threads.
fn transpose<T: Element + Bits>(
    parallel: Parallel<'_>,
    x: &[T],
    [rows, cols]: [usize; 2],
    y: &mut [T],
) -> Result<(), ExecError> {
    let grain = transpose_grain([rows, cols], parallel.width());
    parallel.chunks_mut(y, grain.saturating_mul(rows), |chunk, y| {
        transpose_part(&x[chunk * grain..], cols, [rows, y.len() / rows], y, rows);
        Ok(())
    })
}
