//! A reference implementation of networks by the operators' definitions: exact integer sums, f32 arithmetic, one loop
//! per sum.

use udo_hta::{Divisor, Encoding, Layer, Network, Op, Tensor, Values, Weights, Window};

/// Returns the outputs of a network.
pub(crate) fn run(network: &Network<'_>, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut values: Vec<Option<Vec<u8>>> =
        network.tensors().iter().map(|tensor| tensor.values.map(<[u8]>::to_vec)).collect();
    for (id, input) in network.inputs().iter().zip(inputs) {
        values[id.0] = Some(input.clone());
    }
    for layer in network.layers() {
        let image = |id: &udo_hta::TensorId| Image {
            tensor: &network.tensors()[id.0],
            values: values[id.0].as_deref().unwrap(),
        };
        let inputs: Vec<_> = layer.inputs.iter().map(image).collect();
        let y = &network.tensors()[layer.output.0];
        let computed = compute(layer, &inputs, y);
        assert_eq!(computed.len(), y.len());
        values[layer.output.0] = Some(computed);
    }
    network.outputs().iter().map(|id| values[id.0].clone().unwrap()).collect()
}

/// A tensor with its values.
struct Image<'a> {
    tensor: &'a Tensor<'a>,
    values: &'a [u8],
}

impl Image<'_> {
    /// Returns the value at a pixel, or `None` outside.
    fn value_at(&self, row: isize, column: isize, channel: usize) -> Option<u8> {
        let [_, height, width, channels] = self.tensor.shape;
        let row = usize::try_from(row).ok().filter(|row| *row < height)?;
        let column = usize::try_from(column).ok().filter(|column| *column < width)?;
        Some(self.values[(row * width + column) * channels + channel])
    }

    fn dequantized(&self, value: u8) -> f32 {
        let Encoding { scale, zero_point } = self.tensor.encoding;
        (i32::from(value) - i32::from(zero_point)) as f32 * scale
    }
}

fn quantize(dequantized: f32, to: Encoding) -> u8 {
    let value = (dequantized / to.scale).round_ties_even() + f32::from(to.zero_point);
    if value.is_nan() { 0 } else { value.clamp(0.0, 255.0) as u8 }
}

fn compute(layer: &Layer<'_>, inputs: &[Image<'_>], y: &Tensor<'_>) -> Vec<u8> {
    let x = &inputs[0];
    match &layer.op {
        Op::Conv { window, weights } => filtered(x, window, weights, y, false),
        Op::Depthwise { window, weights } => filtered(x, window, weights, y, true),
        Op::FullyConnected { weights } => (0..y.shape[3])
            .map(|output| {
                let depth = x.values.len();
                let sum =
                    (0..depth).map(|k| term(x, x.values[k], weights, output * depth + k, output));
                scaled(sum.sum(), x, weights, output, y)
            })
            .collect(),
        Op::Add => elementwise(inputs, y, |a, b| a + b),
        Op::Mul => elementwise(inputs, y, |a, b| a * b),
        Op::Concat => {
            let pixels = y.shape[1] * y.shape[2];
            let requantized_pixel = |pixel| {
                inputs.iter().flat_map(move |part| {
                    let channels = part.tensor.shape[3];
                    let values = &part.values[pixel * channels..][..channels];
                    values.iter().map(|value| quantize(part.dequantized(*value), y.encoding))
                })
            };
            (0..pixels).flat_map(requantized_pixel).collect()
        }
        Op::MaxPool { window } => pooled(y, |row, column, channel| {
            taps(window, row, column)
                .filter_map(|(r, c)| x.value_at(r, c, channel))
                .max()
                .unwrap_or(0)
        }),
        Op::AveragePool { window, divisor } => pooled(y, |row, column, channel| {
            let inside: Vec<i64> = taps(window, row, column)
                .filter_map(|(r, c)| x.value_at(r, c, channel))
                .map(|value| i64::from(value) - i64::from(x.tensor.encoding.zero_point))
                .collect();
            let count = match divisor {
                Divisor::Inside => inside.len().max(1),
                Divisor::Kernel => window.kernel[0] * window.kernel[1],
            };
            let sum: i64 = inside.iter().sum();
            quantize(sum as f32 * x.tensor.encoding.scale / count as f32, y.encoding)
        }),
        Op::Lookup { table } => x.values.iter().map(|value| table[usize::from(*value)]).collect(),
        Op::Reshape => x.values.to_vec(),
        Op::Resize => {
            let times = [1, 2].map(|axis| y.shape[axis] / x.tensor.shape[axis]);
            pooled(y, |row, column, channel| {
                let source =
                    |position: usize, times: usize| isize::try_from(position / times).unwrap();
                x.value_at(source(row, times[0]), source(column, times[1]), channel).unwrap()
            })
        }
        Op::Softmax => x.values.chunks(y.shape[3]).flat_map(|row| softmax(x, row, y)).collect(),
    }
}

fn softmax(x: &Image<'_>, row: &[u8], y: &Tensor<'_>) -> Vec<u8> {
    let max = *row.iter().max().unwrap();
    let power = |value: &u8| (-f32::from(max - value) * x.tensor.encoding.scale).exp();
    let sum: f32 = row.iter().map(power).sum();
    row.iter().map(|value| quantize(power(value) / sum, y.encoding)).collect()
}

fn elementwise(
    inputs: &[Image<'_>],
    y: &Tensor<'_>,
    operation: impl Fn(f32, f32) -> f32,
) -> Vec<u8> {
    let [a, b] = inputs else { panic!("{} inputs", inputs.len()) };
    let pairs = a.values.iter().zip(b.values.iter().cycle());
    pairs
        .map(|(&left, &right)| {
            quantize(operation(a.dequantized(left), b.dequantized(right)), y.encoding)
        })
        .collect()
}

/// Computes all values of an image; `pixel` returns the value at a row, column and channel.
fn pooled(y: &Tensor<'_>, pixel: impl Fn(usize, usize, usize) -> u8) -> Vec<u8> {
    let [_, height, width, channels] = y.shape;
    let pixel = &pixel;
    let row =
        |row| (0..width).flat_map(move |column| (0..channels).map(move |c| pixel(row, column, c)));
    (0..height).flat_map(row).collect()
}

/// Yields the positions of a window's taps, row by row.
fn taps(window: &Window, row: usize, column: usize) -> impl Iterator<Item = (isize, isize)> {
    let Window { kernel, strides, dilations, pads } = *window;
    let along = move |axis: usize, at: usize, tap: usize| {
        isize::try_from(at * strides[axis] + tap * dilations[axis]).unwrap()
            - isize::try_from(pads[axis]).unwrap()
    };
    (0..kernel[0])
        .flat_map(move |i| (0..kernel[1]).map(move |j| (along(0, row, i), along(1, column, j))))
}

/// Returns the product of an input value and the weight at `at`, each without its zero point.
fn term(x: &Image<'_>, value: u8, weights: &Weights<'_>, index: usize, output: usize) -> i64 {
    let zero_point_index = |zeros: usize| if zeros == 1 { 0 } else { output };
    let weight = match weights.values {
        Values::I8 { weights, zero_points } => {
            i64::from(weights[index]) - i64::from(zero_points[zero_point_index(zero_points.len())])
        }
        Values::U8 { weights, zero_points } => {
            i64::from(weights[index]) - i64::from(zero_points[zero_point_index(zero_points.len())])
        }
    };
    (i64::from(value) - i64::from(x.tensor.encoding.zero_point)) * weight
}

/// Adds the bias to a sum of products and requantizes it.
fn scaled(sum: i64, x: &Image<'_>, weights: &Weights<'_>, output: usize, y: &Tensor<'_>) -> u8 {
    let sum = sum + weights.bias.get(output).map_or(0, |bias| i64::from(*bias));
    let scale = weights.scales[if weights.scales.len() == 1 { 0 } else { output }];
    let ratio = x.tensor.encoding.scale * scale / y.encoding.scale;
    let value = (i32::try_from(sum).unwrap() as f32 * ratio).round_ties_even();
    (value + f32::from(y.encoding.zero_point)).clamp(0.0, 255.0) as u8
}

/// Computes a convolution, over all channels or depthwise.
fn filtered(
    x: &Image<'_>,
    window: &Window,
    weights: &Weights<'_>,
    y: &Tensor<'_>,
    is_depthwise: bool,
) -> Vec<u8> {
    let channels = x.tensor.shape[3];
    let taps_per_channel = window.kernel[0] * window.kernel[1];
    pooled(y, |row, column, output| {
        let mut sum = 0;
        for (tap, (r, c)) in taps(window, row, column).enumerate() {
            if is_depthwise {
                let channel = output / (y.shape[3] / channels);
                if let Some(value) = x.value_at(r, c, channel) {
                    sum += term(x, value, weights, output * taps_per_channel + tap, output);
                }
                continue;
            }
            for channel in 0..channels {
                if let Some(value) = x.value_at(r, c, channel) {
                    let index = (output * channels + channel) * taps_per_channel + tap;
                    sum += term(x, value, weights, index, output);
                }
            }
        }
        scaled(sum, x, weights, output, y)
    })
}
