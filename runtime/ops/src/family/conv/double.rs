//! Convolutions of `f64`, by their definition.

use std::marker::PhantomData;

use udo_api::{Error, ExecError, FinalizeCx, Io, Kernel};

use super::float::has_bias;
use super::{Conv, Direction, FloatConv};

pub(super) struct ConvF64<C> {
    conv: Conv,
    has_bias: bool,
    of: PhantomData<fn() -> C>,
}

impl<C: FloatConv> Kernel for ConvF64<C> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let conv = C::read(cx, &cx.input(0)?, &cx.input(1)?)?;
        conv.images().ok_or_else(|| Error::new("the convolution is larger than memory"))?;
        Ok(Self { has_bias: has_bias(cx, &conv)?, conv, of: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, w) = (inputs.get::<f64>(0)?, inputs.get::<f64>(1)?);
        let bias = if self.has_bias { inputs.get::<f64>(2)? } else { &[] };
        let channels = self.conv.groups * self.conv.outputs;
        let plane = self.conv.window.output_len();
        parallel.chunks_mut(outputs.take::<f64>(0)?, plane, |chunk, y| {
            let channel = chunk % channels;
            y.fill(bias.get(channel).copied().unwrap_or(0.0));
            self.conv.add_plane(chunk / channels, channel, x, w, y);
            Ok(())
        })
    }
}

impl Conv {
    /// Adds the sums of an output channel of an image to its plane.
    fn add_plane(&self, image: usize, channel: usize, x: &[f64], w: &[f64], y: &mut [f64]) {
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
                self.each_pair(tap, |x_at, y_at| y[y_at] += weight * x[x_at]);
            }
        }
    }

    /// Calls `visit` with each place of the input and the place of the output that a tap takes it to.
    fn each_pair(&self, tap: usize, mut visit: impl FnMut(usize, usize)) {
        let window = &self.window;
        // Windows lie over the large side, one for each place of the other.
        let (small, large) = match self.direction {
            Direction::Forward => (window.output, window.input),
            Direction::Transposed => (window.input, window.output),
        };
        let [_, rows, cols] = window.kernel;
        let tap = [tap / (rows * cols), tap / cols % rows, tap % cols];
        let reach = |axis: usize, at: usize| {
            let padded = at * window.strides[axis] + tap[axis] * window.dilations[axis];
            padded.checked_sub(window.pads[axis]).filter(|&at| at < large[axis])
        };
        for z in 0..small[0] {
            let Some(far) = reach(0, z) else { continue };
            for r in 0..small[1] {
                let Some(row) = reach(1, r) else { continue };
                for c in 0..small[2] {
                    let Some(col) = reach(2, c) else { continue };
                    let near = (z * small[1] + r) * small[2] + c;
                    let there = (far * large[1] + row) * large[2] + col;
                    match self.direction {
                        Direction::Forward => visit(there, near),
                        Direction::Transposed => visit(near, there),
                    }
                }
            }
        }
    }
}
