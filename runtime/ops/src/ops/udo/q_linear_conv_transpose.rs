//! Quantized transposed convolution: `QLinearConv` for `ConvTranspose`. 8- or 16-bit values, 8-bit weights, exact sums,
//! requantized output.
//!
//! `quantized_conv` builds the kernels. `PORTS` tells them the position of each input in the schema.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::conv::{
    self, ConvPorts, Direction, IntegerConv, TRANSPOSED_PARAMS, quantized_conv,
};
use crate::family::quantized::VALUES;
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = quantized_conv::<QLinearConvTranspose>();

struct QLinearConvTranspose;

impl Op for QLinearConvTranspose {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearConvTranspose",
        &[
            Port::required("x", UP_TO_16_BITS),
            Port::required("x_scale", types::F32),
            Port::required("x_zero_point", UP_TO_16_BITS),
            Port::required("w", VALUES),
            // One scale, or one per output channel of a group, the second axis of the weights.
            Port::required("w_scale", types::F32),
            Port::required("w_zero_point", VALUES),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", UP_TO_16_BITS),
            Port::optional("B", types::I32),
        ],
        &[Port::required("y", UP_TO_16_BITS)],
        TRANSPOSED_PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = conv::infer_shape(Self::DIRECTION, cx, 0, Self::PORTS.w)?;
        let zero = cx.input(Self::PORTS.y_zero)?;
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

impl IntegerConv for QLinearConvTranspose {
    const NAME: &'static str = "QLinearConvTranspose";
    const DIRECTION: Direction = Direction::Transposed;
    const PORTS: ConvPorts = ConvPorts {
        x_scale: 1,
        x_zero: 2,
        w: 3,
        w_scale: 4,
        w_zero: 5,
        y_scale: 6,
        y_zero: 7,
        bias: 8,
    };
}

#[cfg(test)]
mod tests {
    use udo_api::QuantizedType;

    use crate::testing::{bench, spread, tensor};

    #[derive(Clone, Copy, Debug)]
    struct Case {
        channels: usize,
        filters: usize,
        groups: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pads: [usize; 2],
        /// Extra extent of the output, `output_padding`.
        output_padding: usize,
    }

    const PLAIN: Case = Case {
        channels: 4,
        filters: 6,
        groups: 1,
        kernel: 3,
        stride: 2,
        dilation: 1,
        pads: [1, 1],
        output_padding: 1,
    };

    const CASES: [Case; 8] = [
        PLAIN,
        Case { kernel: 2, pads: [0; 2], output_padding: 0, ..PLAIN },
        Case { kernel: 2, filters: 1, pads: [0; 2], output_padding: 0, ..PLAIN },
        Case { channels: 35, filters: 19, kernel: 4, output_padding: 0, ..PLAIN },
        Case { groups: 2, stride: 3, pads: [0; 2], output_padding: 2, ..PLAIN },
        Case { groups: 4, filters: 4, kernel: 4, pads: [0, 2], output_padding: 0, ..PLAIN },
        Case { kernel: 2, dilation: 2, stride: 1, pads: [2, 0], output_padding: 0, ..PLAIN },
        Case { kernel: 1, stride: 3, pads: [0; 2], output_padding: 2, ..PLAIN },
    ];

    const ROWS: usize = 4;
    const COLS: usize = 5;

    /// Computes the sums of the reference by scattering each element of two images.
    fn reference_sums(case: Case, x: &[i64], w: &[i64], bias: &[i32]) -> (Vec<i64>, [usize; 2]) {
        let Case { channels, filters, groups, kernel, stride, dilation, pads, output_padding } =
            case;
        let out = |extent: usize| {
            let full = (extent - 1) * stride + (kernel - 1) * dilation + 1;
            full + output_padding - pads[0] - pads[1]
        };
        let (height, width, group_filters) = (out(ROWS), out(COLS), filters / groups);
        let pixels = height * width;
        let mut y: Vec<i64> =
            (0..2 * filters * pixels).map(|i| bias[i / pixels % filters].into()).collect();
        let y_position =
            |position: usize, tap: usize| (position * stride + tap * dilation).checked_sub(pads[0]);
        let taps = kernel * kernel;
        for (index, x) in x.iter().enumerate() {
            let (row, col, plane) = (index / COLS % ROWS, index % COLS, index / COLS / ROWS);
            let (image, channel) = (plane / channels, plane % channels);
            for weight_index in 0..group_filters * taps {
                let y_row = y_position(row, weight_index / kernel % kernel);
                let y_col = y_position(col, weight_index % kernel);
                if let (Some(y_row), Some(y_col)) = (y_row, y_col)
                    && y_row < height
                    && y_col < width
                {
                    let group = channel / (channels / groups);
                    let filter = group * group_filters + weight_index / taps;
                    let weight = w[channel * group_filters * taps + weight_index];
                    y[((image * filters + filter) * height + y_row) * width + y_col] += x * weight;
                }
            }
        }
        (y, [height, width])
    }

    /// Returns the scale for `T` that covers the same range as `scale` does for bytes.
    fn scale_for<T: QuantizedType>(scale: f32) -> f32 {
        if size_of::<T>() == 1 { scale } else { scale / 256.0 }
    }

    /// Compares inputs `X`, weights `W` and outputs `Y` of quantized types with the definition.
    fn check<X: QuantizedType, W: QuantizedType, Y: QuantizedType>(case: Case) {
        let Case { channels, filters, groups, kernel, stride, dilation, pads, output_padding } =
            case;
        let group_filters = filters / groups;
        let x: Vec<X> = spread(2 * channels * ROWS * COLS, 40_537);
        let w: Vec<W> = spread(channels * group_filters * kernel * kernel, 37);
        let (x_zero, y_zero) = (spread::<X>(2, 30_069)[1], spread::<Y>(2, 799)[1]);
        let w_zeros: Vec<W> = spread(group_filters, 3);
        let w_scales: Vec<f32> = (0..group_filters).map(|i| 0.01 + i as f32 * 0.003).collect();
        let (x_scale, y_scale) = (scale_for::<X>(0.02), scale_for::<Y>(0.9));
        let bias: Vec<i32> = (0..filters as i32).map(|i| i * 131 - 500).collect();
        let without_zero = |values: &[X]| -> Vec<i64> {
            values.iter().map(|x| (x.to_i32() - x_zero.to_i32()).into()).collect()
        };
        let taps = kernel * kernel;
        let weights: Vec<i64> = (w.iter().enumerate())
            .map(|(index, w)| (w.to_i32() - w_zeros[index / taps % group_filters].to_i32()).into())
            .collect();
        let (sums, [height, width]) = reference_sums(case, &without_zero(&x), &weights, &bias);
        let expected = sums.iter().enumerate().map(|(index, &sum)| {
            let scale = w_scales[index / height / width % group_filters];
            let scaled = (sum as f32 * (x_scale * scale / y_scale)).round_ties_even();
            Y::from_f32(scaled + y_zero.to_i32() as f32).to_i32()
        });
        let expected: Vec<i32> = expected.collect();
        let per_axis = |value: usize| [value as i64; 2];
        for (has_constant_weights, threads) in [(true, 1), (false, 1), (true, 3)] {
            let weights = tensor(&[channels, group_filters, kernel, kernel], &w);
            let run = bench("udo:QLinearConvTranspose")
                .threads(threads)
                .input(tensor(&[2, channels, ROWS, COLS], &x))
                .constant(tensor(&[], &[x_scale]))
                .constant(tensor(&[], &[x_zero]));
            let run = if has_constant_weights { run.constant(weights) } else { run.input(weights) };
            let y = run
                .constant(tensor(&[group_filters], &w_scales))
                .constant(tensor(&[group_filters], &w_zeros))
                .constant(tensor(&[], &[y_scale]))
                .constant(tensor(&[], &[y_zero]))
                .constant(tensor(&[filters], &bias))
                .int("group", groups as i64)
                .ints("strides", &per_axis(stride))
                .ints("dilations", &per_axis(dilation))
                .ints("pads", &[per_axis(pads[0]), per_axis(pads[1])].concat())
                .ints("output_padding", &per_axis(output_padding))
                .one();
            assert_eq!(y.dims(), [2, filters, height, width], "{case:?}");
            let actual: Vec<i32> = y.values::<Y>().into_iter().map(Y::to_i32).collect();
            assert_eq!(actual, expected, "{case:?}");
        }
    }

    #[test]
    fn every_type_and_shape_matches_the_definition() {
        for case in CASES {
            check::<u8, i8, u8>(case);
            check::<u8, u8, i8>(case);
            check::<i8, i8, i8>(case);
            check::<i8, u8, u8>(case);
            check::<u16, i8, u16>(case);
            check::<i16, u8, i16>(case);
            check::<u8, i8, u16>(case);
            check::<i16, i8, u8>(case);
        }
    }

    #[test]
    fn scales_are_one_for_all_filters_or_one_per_filter_of_a_group() {
        let run = bench("udo:QLinearConvTranspose").input(tensor(&[1, 2, 1, 1], &[1u8, 2]));
        let run = run.input(tensor(&[], &[1f32])).input(tensor(&[], &[0u8]));
        let run = run.input(tensor(&[2, 2, 1, 1], &[1i8, 2, 3, 4]));
        let run = run.input(tensor(&[4], &[1f32; 4])).input(tensor(&[], &[0i8]));
        let run = run.input(tensor(&[], &[1f32])).input(tensor(&[], &[0u8])).int("group", 2);
        assert_eq!(run.error(), "input 4 is f32[4], expected 1 or 2 elements");
    }
}
