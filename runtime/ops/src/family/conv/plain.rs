//! Convolution by the definition with f64 sums, for types that the primitives do not support.

use std::marker::PhantomData;

use udo_api::{Arithmetic, Bf16, Error, ExecError, F16, FinalizeCx, Io, Kernel, Work, Workspace};

use super::{Conv, Direction, FloatConv, has_bias};
use crate::family::elementwise::Stored;

/// The most chunks that an output is divided into for threads; each needs a buffer of sums.
const CHUNKS: usize = 64;

pub(super) struct PlainConv<C> {
    conv: Conv,
    has_bias: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> C>,
}

impl<C: FloatConv> Kernel for PlainConv<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let conv = C::read(cx, &cx.input(0)?, &cx.input(1)?)?;
        let images = conv.images();
        let images =
            images.ok_or_else(|| Error::new("the convolution exceeds the address space"))?;
        cx.work(Work::products(&[images.batch, images.work]).with(Arithmetic::F64))?;
        let run = of_type!(
            cx.input(0)?.dtype(),
            [F64 = f64, F16 = F16, Bf16 = Bf16],
            T => Self::run::<T>
        )?;
        Ok(Self { has_bias: has_bias(cx, &conv)?, conv, run, marker: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f64>(self.sums_len())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<C> PlainConv<C> {
    fn sums_len(&self) -> usize {
        self.conv.window.output_len().saturating_mul(CHUNKS)
    }

    fn run<T: Stored<f64>>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let (x, w) = (inputs.get::<T>(0)?, inputs.get::<T>(1)?);
        let bias = if self.has_bias { inputs.get::<T>(2)? } else { &[] };
        let channels = self.conv.groups * self.conv.outputs;
        let (y, sums) = (outputs.take::<T>(0)?, scratch.take::<f64>(self.sums_len())?);
        let plane = self.conv.window.output_len().max(1);
        let grain = (y.len() / plane).div_ceil(CHUNKS);
        parallel.chunks_mut_with(y, grain * plane, sums, plane, |chunk, y, sums| {
            for (index, y) in (chunk * grain..).zip(y.chunks_exact_mut(plane)) {
                let (image, channel) = (index / channels, index % channels);
                sums.fill(bias.get(channel).map_or(0.0, |bias| bias.load()));
                self.conv.add_plane(image, channel, x, w, sums);
                y.iter_mut().zip(&*sums).for_each(|(y, &sum)| *y = T::store(sum));
            }
            Ok(())
        })
    }
}

impl Conv {
    /// Adds the sums of an output channel of an image to its plane.
    fn add_plane<T: Stored<f64>>(
        &self,
        image: usize,
        channel: usize,
        x: &[T],
        w: &[T],
        y: &mut [f64],
    ) {
        let &Self { direction, groups, inputs, outputs, window, .. } = self;
        let (group, output) = (channel / outputs, channel % outputs);
        let taps: usize = window.kernel.iter().product();
        let len = window.input_len();
        for input in 0..inputs {
            let x = &x[((image * groups + group) * inputs + input) * len..][..len];
            let filter = match direction {
                Direction::Forward => channel * inputs + input,
                Direction::Transposed => (group * inputs + input) * outputs + output,
            };
            for (tap, weight) in w[filter * taps..][..taps].iter().enumerate() {
                let weight = weight.load();
                self.each_pair(tap, |x_at, y_at| y[y_at] += weight * x[x_at].load());
            }
        }
    }

    /// Calls `visit(input, output)` with each pair of positions that the filter element `tap` connects.
    fn each_pair(&self, tap: usize, mut visit: impl FnMut(usize, usize)) {
        let window = &self.window;
        // Windows slide over the large side, one per position of the small side.
        let (small, large) = match self.direction {
            Direction::Forward => (window.output, window.input),
            Direction::Transposed => (window.input, window.output),
        };
        let [_, rows, cols] = window.kernel;
        let tap = [tap / (rows * cols), tap / cols % rows, tap % cols];
        // The coordinate on the large side, or `None` in the padding.
        let large_coordinate = |axis: usize, small: usize| {
            let padded = small * window.strides[axis] + tap[axis] * window.dilations[axis];
            padded.checked_sub(window.pads[axis]).filter(|&large_at| large_at < large[axis])
        };
        for small_plane in 0..small[0] {
            let Some(plane) = large_coordinate(0, small_plane) else { continue };
            for small_row in 0..small[1] {
                let Some(row) = large_coordinate(1, small_row) else { continue };
                for small_col in 0..small[2] {
                    let Some(col) = large_coordinate(2, small_col) else { continue };
                    let small_at = (small_plane * small[1] + small_row) * small[2] + small_col;
                    let large_at = (plane * large[1] + row) * large[2] + col;
                    match self.direction {
                        Direction::Forward => visit(large_at, small_at),
                        Direction::Transposed => visit(small_at, large_at),
                    }
                }
            }
        }
    }
}
