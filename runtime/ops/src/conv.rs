//! What convolutions share: how their parameters are read, and what images they lie over.

use udo_api::{Dim, Element, Error, ExecError, InferCx, Node, Parallel, Shape, TensorDesc};
use udo_simd::rows::{transpose_grain, transpose_part};
use udo_simd::{Bits, indirect};

use crate::family::window::{Rounding, Window};

/// The shapes of a convolution; channels are per group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv {
    pub(crate) window: Window,
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// The output's shape for input `x` and weights `w`.
pub(crate) fn infer_shape(cx: &InferCx<'_>, x: usize, w: usize) -> Result<Shape, Error> {
    let (x, w) = (cx.input(x)?, cx.input(w)?);
    let conv = Conv::read(cx, &x, &w)?;
    conv.window.output_shape(&x, Dim::Fixed(conv.groups * conv.outputs))
}

impl Conv {
    /// Reads the parameters of a convolution of `x` with weights `w`.
    pub(crate) fn read(node: &Node<'_>, x: &TensorDesc, w: &TensorDesc) -> Result<Self, Error> {
        let wrong = |what: &str| Error::new(format!("input is {x}, weights are {w}: {what}"));
        let (&[batch, channels, ..], &[outputs, inputs, ref kernel @ ..]) = (x.shape(), w.shape())
        else {
            return Err(wrong("wanted rank 3 to 5"));
        };
        if node.has_param("kernel_shape") {
            let declared = node.ints("kernel_shape")?;
            if !declared.iter().copied().eq(kernel.iter().map(|&k| k as i64)) {
                return Err(wrong(&format!("parameter \"kernel_shape\" is {declared:?}")));
            }
        }
        let groups = usize::try_from(node.int("group")?).unwrap_or(0);
        if groups == 0 || outputs % groups != 0 || inputs.checked_mul(groups) != Some(channels) {
            return Err(wrong(&format!("the channels do not fit {groups} groups")));
        }
        let window = Window::read(node, x, kernel, Rounding::Floor)?;
        Ok(Self { window, batch, groups, inputs, outputs: outputs / groups })
    }

    /// Whether each channel has filters of its own.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.inputs == 1 && self.groups > 1
    }

    /// The images on both sides; none if they are beyond memory.
    pub(crate) fn images(&self) -> Option<Images> {
        let window = self.window.on_pixels();
        let channels =
            [self.groups.checked_mul(self.inputs)?, self.groups.checked_mul(self.outputs)?];
        let pixels = [window.input_len()?, window.rows()?];
        let lines = window.output[0] * window.output[1];
        let taps = window.taps()?;
        let work =
            pixels[1].checked_mul(channels[1])?.checked_mul(self.inputs.checked_mul(taps)?)?;
        Some(Images { window, batch: self.batch, channels, pixels, lines, work })
    }
}

/// Images as the primitives see them: pixel by pixel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images {
    pub(crate) window: indirect::Window,
    pub(crate) batch: usize,
    /// Channels of all groups, and pixels, of an input image and of an output image.
    pub(crate) channels: [usize; 2],
    pub(crate) pixels: [usize; 2],
    /// Lines of output pixels.
    pub(crate) lines: usize,
    /// Multiply-adds of an image.
    pub(crate) work: usize,
}

impl Images {
    /// Elements of an input image, and of an output image.
    pub(crate) fn lens(&self) -> [usize; 2] {
        [0, 1].map(|side| self.channels[side] * self.pixels[side])
    }

    /// Elements of a line of an output image.
    pub(crate) fn line_len(&self) -> usize {
        self.pixels[1] / self.lines.max(1) * self.channels[1]
    }

    /// An input image pixel by pixel, from one channel by channel.
    pub(crate) fn turn<T: Element + Bits>(
        &self,
        parallel: Parallel<'_>,
        x: &[T],
        turned: &mut [T],
    ) -> Result<(), ExecError> {
        turn(parallel, x, [self.channels[0], self.pixels[0]], turned)
    }

    /// An output image channel by channel, from one pixel by pixel.
    pub(crate) fn turn_back<T: Element + Bits>(
        &self,
        parallel: Parallel<'_>,
        last: &[T],
        y: &mut [T],
    ) -> Result<(), ExecError> {
        turn(parallel, last, [self.pixels[1], self.channels[1]], y)
    }
}

/// `y[j, i] = x[i, j]` for `rows` rows of `cols` elements of `x`, shared out among threads.
fn turn<T: Element + Bits>(
    parallel: Parallel<'_>,
    x: &[T],
    [rows, cols]: [usize; 2],
    y: &mut [T],
) -> Result<(), ExecError> {
    let grain = transpose_grain([rows, cols], parallel.width());
    parallel.chunks_mut(y, grain.saturating_mul(rows), |piece, y| {
        transpose_part(&x[piece * grain..], cols, [rows, y.len() / rows], y, rows);
        Ok(())
    })
}

/// Room for a table, if there is memory for it: a model decides how large it is.
pub(crate) fn table(len: usize) -> Option<Vec<u32>> {
    let mut table = Vec::new();
    table.try_reserve_exact(len).ok()?;
    table.resize(len, 0);
    Some(table)
}
