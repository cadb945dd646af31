//! What pooling operators share.

use std::ops::Range;

use udo_api::{Dim, Element, Error, ExecError, FinalizeCx, InferCx, Node, Parallel, TensorDesc};
use udo_simd::indirect;
use udo_simd::pooling::Image;

use crate::share;
use crate::sides::Sides;
use crate::window::{Rounding, Taps, Window, sizes};

/// Images that are pooled pixel by pixel.
pub(crate) struct Images {
    pub(crate) window: indirect::Window,
    pub(crate) channels: usize,
    /// Pixels behind the last of the input, along each axis.
    pub(crate) behind: [usize; 3],
}

impl Images {
    /// The images of a pooling node whose input has its channels last.
    pub(crate) fn read(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = Sides::BOTH.described(&cx.input(0)?)?;
        let window = window(cx, &x)?;
        let channels = x.shape().get(1).copied().unwrap_or(0);
        let behind = window.end_pads;
        let window = window.on_pixels();
        let known = window.taps().and(window.input_len()).and(window.rows());
        known.ok_or_else(|| Error::new("the windows are larger than memory"))?;
        Ok(Self { window, channels, behind })
    }

    /// Calls `pool` with an image and rows of it, for all rows of all images of `x`.
    pub(crate) fn run<T: Element>(
        &self,
        parallel: Parallel<'_>,
        x: &[T],
        y: &mut [T],
        pool: impl Fn(Image<'_, T>, Range<usize>, &mut [T]) + Sync,
    ) -> Result<(), ExecError> {
        let Self { window, channels, .. } = self;
        let from: usize = window.input.iter().product();
        let line = window.output[2] * channels;
        if line == 0 {
            return Ok(());
        }
        let work = window.output.iter().chain(&window.kernel).product::<usize>() * channels;
        let lines = window.output[0] * window.output[1];
        let count = lines.div_ceil(share::width(parallel, work));
        for (image, y) in y.chunks_exact_mut(line * lines).enumerate() {
            let data = &x[image * from * channels..][..from * channels];
            parallel.chunks_mut(y, count * line, |piece, y| {
                let rows = piece * count..piece * count + y.len() / line;
                pool(Image { data, stride: *channels }, rows, y);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The windows of a pooling node over `x`.
pub(crate) fn window(node: &Node<'_>, x: &TensorDesc) -> Result<Window, Error> {
    let kernel = sizes(node, "kernel_shape", x.rank().saturating_sub(2), 1)?;
    let rounding = if node.flag("ceil_mode")? { Rounding::Ceil } else { Rounding::Floor };
    Window::read(node, x, &kernel, rounding)
}

/// Describes output 0 of a pooling node.
pub(crate) fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    let channels = x.full_shape().dim(1).unwrap_or(Dim::Fixed(1));
    let shape = window(cx, &x)?.output_shape(&x, channels)?;
    cx.set_output(0, x.with_shape(shape))
}

/// Writes each element of `y` from the taps of its window in its plane of `x`.
pub(crate) fn each_window<X, Y>(
    window: &Window,
    x: &[X],
    y: &mut [Y],
    compute: impl Fn(&[X], [Taps; 3], [usize; 3]) -> Y,
) {
    let (in_len, out_len) = (window.input_len(), window.output_len());
    if out_len == 0 {
        return;
    }
    let [_, height, breadth] = window.output;
    for (plane, y) in y.chunks_exact_mut(out_len).enumerate() {
        // A plane without elements still has windows, which lie in the padding.
        let x = &x[plane * in_len..][..in_len];
        for (i, y) in y.iter_mut().enumerate() {
            let at = [i / (height * breadth), i / breadth % height, i % breadth];
            let taps = [window.taps(0, at[0]), window.taps(1, at[1]), window.taps(2, at[2])];
            *y = compute(x, taps, at);
        }
    }
}

/// Writes each element of `y` from the fold of its window in its plane of `x`.
///
/// The lines of a window are folded first, all columns at once, so that `line` needs an element per input
/// column: that work is shared by the windows of a line, and is the compiler's to vectorize.
pub(crate) fn fold_windows<X: Copy>(
    window: &Window,
    x: &[X],
    y: &mut [X],
    line: &mut [X],
    start: X,
    fold: impl Fn(X, X) -> X,
    finish: impl Fn(X, [Taps; 3], [usize; 3]) -> X,
) {
    let (in_len, out_len) = (window.input_len(), window.output_len());
    let [_, rows, cols] = window.input;
    let [_, height, breadth] = window.output;
    let [outer_step, middle_step, step] = window.dilations;
    if out_len == 0 {
        return;
    }
    for (at, y) in y.chunks_exact_mut(breadth).enumerate() {
        // A plane without elements still has windows, which lie in the padding.
        let (plane, row) = (at / (out_len / breadth), at % (out_len / breadth));
        let plane = &x[plane * in_len..][..in_len];
        let (z, row) = (row / height, row % height);
        let (outer, middle) = (window.taps(0, z), window.taps(1, row));
        line.fill(start);
        for d in 0..outer.len {
            for r in 0..middle.len {
                let from = (outer.first + d * outer_step) * rows + middle.first + r * middle_step;
                let values = &plane[from * cols..][..cols];
                line.iter_mut().zip(values).for_each(|(sum, &x)| *sum = fold(*sum, x));
            }
        }
        for (col, y) in y.iter_mut().enumerate() {
            let taps = window.taps(2, col);
            let values = line.get(taps.first..).unwrap_or(&[]).iter().step_by(step).take(taps.len);
            let sum = values.fold(start, |sum, &x| fold(sum, x));
            *y = finish(sum, [outer, middle, taps], [z, row, col]);
        }
    }
}

/// Folds the places in a plane of the taps of one window that lie inside the input.
#[inline]
pub(crate) fn fold_places<S>(
    window: &Window,
    [outer, middle, inner]: [Taps; 3],
    start: S,
    mut fold: impl FnMut(S, usize) -> S,
) -> S {
    let [_, rows, cols] = window.input;
    let [outer_step, middle_step, inner_step] = window.dilations;
    let mut sum = start;
    for d in 0..outer.len {
        for r in 0..middle.len {
            let row = (outer.first + d * outer_step) * rows + middle.first + r * middle_step;
            for c in 0..inner.len {
                sum = fold(sum, row * cols + inner.first + c * inner_step);
            }
        }
    }
    sum
}
