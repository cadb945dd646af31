//! Means over windows of quantized values, with channels second or last.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node,
    Op, OpSchema, Param, Port, PortRule, QuantizedType, Shape, TensorDesc, Value, input,
    input_like, output_like, types,
};

use super::{EncodingPorts, VALUES};
use crate::Def;
use crate::family::layout::{ChannelsLast, ChannelsSecond, Layout};
use crate::family::partition::GRAIN;
use crate::family::window::{Rounding, Window, sizes};

/// The windows of an operator.
pub(crate) trait QuantizedMean: Send + Sync + 'static {
    const NAME: &'static str;
    /// Parameters in addition to `channels_last`.
    const PARAMS: &'static [Param];

    /// Returns the windows over `x`, described with channels second.
    fn window(node: &Node<'_>, x: &TensorDesc) -> Result<Window, Error>;

    /// Whether padding counts as elements of value 0.
    fn counts_padding(node: &Node<'_>) -> Result<bool, Error>;
}

/// Defines the operator of the windows `M`.
pub(crate) const fn quantized_mean<M: QuantizedMean>() -> Def {
    Def::new::<Described<M>>(Means::<M, ChannelsSecond>::KERNELS)
}

/// Returns one window that covers the whole image.
pub(crate) fn whole(x: &TensorDesc) -> Result<Window, Error> {
    let spatial = x.shape().get(2..).filter(|dims| (1..=3).contains(&dims.len()));
    let spatial =
        spatial.ok_or_else(|| Error::new(format!("input 0 is {x}, expected rank 3 to 5")))?;
    let mut input = [1; 3];
    input[3 - spatial.len()..].copy_from_slice(spatial);
    Ok(Window {
        input,
        output: [1; 3],
        kernel: input,
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0; 3],
        end_pads: [0; 3],
    })
}

/// Returns the windows of pooling parameters.
pub(crate) fn sliding(node: &Node<'_>, x: &TensorDesc) -> Result<Window, Error> {
    let kernel = sizes(node, "kernel_shape", x.rank().saturating_sub(2), 1)?;
    let rounding = if node.flag("ceil_mode")? { Rounding::Ceil } else { Rounding::Floor };
    Window::read(node, x, &kernel, rounding)
}

/// Outputs whose images are summed together.
const SUMMED_TOGETHER: usize = 64;

const X: EncodingPorts = EncodingPorts { scale: 1, zero: 2 };
const Y: EncodingPorts = EncodingPorts { scale: 3, zero: 4 };
const CHANNELS_LAST: Param = Param::scalar("channels_last", DType::I64).default(Value::int(0));

/// The operator of the windows `M`.
struct Described<M>(PhantomData<fn() -> M>);

impl<M: QuantizedMean> Described<M> {
    const PARAMS: [Param; 8] = {
        let mut params = [CHANNELS_LAST; 8];
        let mut i = 0;
        while i < M::PARAMS.len() {
            params[1 + i] = M::PARAMS[i];
            i += 1;
        }
        params
    };
}

impl<M: QuantizedMean> Op for Described<M> {
    const SCHEMA: OpSchema = OpSchema::new(
        M::NAME,
        &[
            Port::required("X", VALUES),
            Port::required("x_scale", types::F32),
            Port::optional("x_zero_point", VALUES),
            Port::required("y_scale", types::F32),
            Port::optional("y_zero_point", VALUES),
        ],
        &[Port::required("Y", VALUES)],
        Self::PARAMS.split_at(1 + M::PARAMS.len()).0,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = channels_second(cx)?;
        let channels = x.full_shape().dim(1).unwrap_or(Dim::Fixed(1));
        let shape = M::window(cx, &x)?.output_shape(&x, channels)?;
        let mut dims: Vec<Dim> = shape.iter().collect();
        if cx.flag("channels_last")? {
            dims[1..].rotate_left(1);
        }
        let dims = Shape::from_dims(&dims)?;
        cx.set_output(0, x.dtype().map_or(x, |t| TensorDesc::new(t, dims)))
    }
}

/// Describes input 0 with channels second.
fn channels_second(node: &Node<'_>) -> Result<TensorDesc, Error> {
    let x = node.input(0)?;
    if x.rank() < 3 {
        return Err(Error::new(format!("input 0 is {x}, expected rank 3 to 5")));
    }
    let mut dims: Vec<Dim> = x.full_shape().iter().collect();
    if node.flag("channels_last")? {
        dims[1..].rotate_right(1);
    }
    let shape = Shape::from_dims(&dims)?;
    Ok(x.dtype().map_or(x, |t| TensorDesc::new(t, shape)))
}

/// Kernel of the windows `M` for images in the layout `L`.
struct Means<M, L> {
    window: Window,
    channels: usize,
    counts_padding: bool,
    channels_last: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> (M, L)>,
}

impl<M: QuantizedMean, L: Layout> Means<M, L> {
    const RULES: &'static [PortRule] =
        &L::PORTS.apply([input(0, VALUES), input_like(2, 0), input_like(4, 0), output_like(0, 0)]);
    const DEF: KernelDef = KernelDef::new::<Self>(M::NAME, Core::CPU).ports(Self::RULES);
}

impl<M: QuantizedMean> Means<M, ChannelsSecond> {
    const KERNELS: &'static [KernelDef] =
        &[Means::<M, ChannelsLast>::DEF, Self::DEF, Self::DEF.on(Core::DSP_V68)];
}

impl<M: QuantizedMean, L: Layout> Kernel for Means<M, L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let is_last_in_node = cx.flag("channels_last")?;
        if L::PORTS.input && is_last_in_node {
            return Err(Error::new("channels are last as the node describes its input"));
        }
        let x =
            if L::PORTS.input { L::PORTS.described(&cx.input(0)?)? } else { channels_second(cx)? };
        X.check(cx, x.dtype())?;
        Y.check(cx, x.dtype())?;
        Ok(Self {
            window: M::window(cx, &x)?,
            channels: x.shape()[1],
            counts_padding: M::counts_padding(cx)?,
            channels_last: L::PORTS.input || is_last_in_node,
            run: of_type!(x.dtype(), [U8 = u8, I8 = i8], T => execute::<M, L, T>)?,
            marker: PhantomData,
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<M: QuantizedMean, L: Layout, T: QuantizedType>(
    kernel: &Means<M, L>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let x = inputs.get::<T>(0)?;
    let (x_encoding, y_encoding) = (X.read::<T>(&inputs)?, Y.read::<T>(&inputs)?);
    let taps: usize = kernel.window.kernel.iter().product();
    let grain = GRAIN.div_ceil(taps.max(1));
    let y = outputs.take::<T>(0)?;
    if kernel.is_whole() {
        let count = taps.max(1);
        let zeros = (taps as i64) * i64::from(x_encoding.zero_point);
        let grain = grain.next_multiple_of(SUMMED_TOGETHER);
        return parallel.chunks_mut(y, grain, |chunk, y| {
            let from = chunk * grain;
            for (i, y) in y.chunks_mut(SUMMED_TOGETHER).enumerate() {
                let mut sums = [0; SUMMED_TOGETHER];
                kernel.sum_whole(x, from + i * SUMMED_TOGETHER, &mut sums[..y.len()]);
                for (y, sum) in y.iter_mut().zip(sums) {
                    *y =
                        y_encoding.quantize((sum - zeros) as f32 * x_encoding.scale / count as f32);
                }
            }
            Ok(())
        });
    }
    parallel.chunks_mut(y, grain, |chunk, y| {
        for (at, y) in (chunk * grain..).zip(y) {
            let (sum, inside, all) = kernel.window_at(x, at);
            // Padding stands for 0, as the zero point does, so only the elements inside contribute it.
            let sum = sum - inside as i64 * i64::from(x_encoding.zero_point);
            let count = if kernel.counts_padding { all } else { inside };
            *y = y_encoding.quantize(sum as f32 * x_encoding.scale / count.max(1) as f32);
        }
        Ok(())
    })
}

impl<M, L> Means<M, L> {
    /// Whether each window covers a whole image.
    fn is_whole(&self) -> bool {
        let Window { input, output, kernel, pads, end_pads, .. } = self.window;
        let no_padding = [0; 3];
        output == [1; 3] && kernel == input && (pads, end_pads) == (no_padding, no_padding)
    }

    /// Sums all pixels of a channel for each output from `first` on.
    fn sum_whole<T: QuantizedType>(&self, x: &[T], first: usize, sums: &mut [i64]) {
        let pixels = self.window.input_len();
        if !self.channels_last {
            for (sum, image) in sums.iter_mut().zip(x[first * pixels..].chunks(pixels.max(1))) {
                // 2^16 values of 8 bits cannot overflow an i32 sum.
                let parts = image.chunks(1 << 16);
                *sum =
                    parts.map(|part| i64::from(part.iter().map(|v| v.to_i32()).sum::<i32>())).sum();
            }
            return;
        }
        let mut summed = 0;
        while summed < sums.len() {
            let output = first + summed;
            let (image, channel) = (output / self.channels, output % self.channels);
            let count = (self.channels - channel).min(sums.len() - summed);
            for pixel in x[image * pixels * self.channels..].chunks(self.channels).take(pixels) {
                let values = &pixel[channel..][..count];
                let sums = sums[summed..].iter_mut().zip(values);
                sums.for_each(|(sum, value)| *sum += i64::from(value.to_i32()));
            }
            summed += count;
        }
    }

    /// Returns the sum of the window of output `output`, the number of its elements inside the image, and the number
    /// inside the padded image.
    fn window_at<T: QuantizedType + Element>(&self, x: &[T], output: usize) -> (i64, usize, usize) {
        let Self { window, channels, .. } = self;
        let (pixels, out_pixels) = (window.input_len(), window.output_len());
        // The pixel of the output, and the first element and the pixel stride of the input channel.
        let (pixel, start, step) = if self.channels_last {
            let image = output / (out_pixels * channels);
            let channel = output % channels;
            (output / channels % out_pixels, image * pixels * channels + channel, *channels)
        } else {
            (output % out_pixels, output / out_pixels * pixels, 1)
        };
        let [_, height, width] = window.output;
        let out = [pixel / (height * width), pixel / width % height, pixel % width];
        let [depth, rows, cols] = [0, 1, 2].map(|axis| window.taps(axis, out[axis]));
        let [_, in_height, in_width] = window.input;
        let mut sum = 0;
        for d in 0..depth.len {
            for r in 0..rows.len {
                let d = depth.first + d * window.dilations[0];
                let r = rows.first + r * window.dilations[1];
                let first = start + ((d * in_height + r) * in_width + cols.first) * step;
                let values =
                    x.get(first..).unwrap_or(&[]).iter().step_by(step * window.dilations[2]);
                sum += values.take(cols.len).map(|value| i64::from(value.to_i32())).sum::<i64>();
            }
        }
        let padded = (0..3).map(|axis| window.padded_taps(axis, out[axis])).product();
        (sum, depth.len * rows.len * cols.len, padded)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn sums_of_large_windows_do_not_overflow() {
        // Enough values of 255 to exceed an i32 sum.
        let len = i32::MAX as usize / 255 + 2;
        let [one, zero] = [tensor(&[], &[1f32]), tensor(&[], &[0u8])];
        let run = bench("com.microsoft:QLinearGlobalAveragePool");
        let run = run.input(tensor(&[1, 1, len], &vec![255u8; len]));
        let run = run.input(one.clone()).input(zero.clone()).input(one).input(zero);
        assert_eq!(run.one().values::<u8>(), [255]);
    }
}
