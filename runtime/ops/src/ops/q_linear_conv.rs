//! Quantized convolution: 8- or 16-bit values, 8-bit weights, exact sums, requantized output. With
//! `s = sum((x - x_zero) (w - w_zero)) + B`, it computes `y = saturate(round(s x_scale w_scale / y_scale) + y_zero)`.
//!
//! `quantized_conv` builds the kernels. `PORTS` tells them the position of each input in the schema.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::conv::{self, ConvPorts, IntegerConv, PARAMS, quantized_conv};
use crate::family::quantized::VALUES;
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = quantized_conv::<QLinearConv>();

struct QLinearConv;

impl Op for QLinearConv {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearConv",
        &[
            Port::required("x", UP_TO_16_BITS),
            Port::required("x_scale", types::F32),
            Port::required("x_zero_point", UP_TO_16_BITS),
            Port::required("w", VALUES),
            Port::required("w_scale", types::F32),
            Port::required("w_zero_point", VALUES),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", UP_TO_16_BITS),
            Port::optional("B", types::I32),
        ],
        &[Port::required("y", UP_TO_16_BITS)],
        PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = conv::infer_shape(Self::DIRECTION, cx, 0, Self::PORTS.w)?;
        let zero = cx.input(Self::PORTS.y_zero)?;
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

impl IntegerConv for QLinearConv {
    const NAME: &'static str = "QLinearConv";
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

    /// Two channels of 3 by 3 pixels and three filters of 2 by 2, with padding. All sums are exact.
    #[test]
    fn quantized_values_match_the_definition() {
        let x: Vec<u8> = (0..18).map(|i| (i * 29 % 256) as u8).collect();
        let w: Vec<i8> = (0..24).map(|i| (i * 37 % 256) as u8 as i8).collect();
        let (x_scale, y_scale, x_zero, y_zero) = (0.02f32, 0.9f32, 121u8, 7i8);
        let (w_scales, w_zeros) = ([0.5f32, 0.01, 1.3], [0i8, -3, 9]);
        let bias = [5i32, -1000, 77];
        let mut expected = Vec::new();
        for index in 0..3 * 4 * 4 {
            let (filter, y_row, y_col) = (index / 16, index / 4 % 4, index % 4);
            let mut sum = bias[filter];
            for term in 0..8 {
                let channel = term / 4;
                let row = (y_row + term / 2 % 2).wrapping_sub(1);
                let col = (y_col + term % 2).wrapping_sub(1);
                if row < 3 && col < 3 {
                    let x = i32::from(x[channel * 9 + row * 3 + col]) - i32::from(x_zero);
                    sum += x * (i32::from(w[filter * 8 + term]) - i32::from(w_zeros[filter]));
                }
            }
            let scaled = (sum as f32 * (x_scale * w_scales[filter] / y_scale)).round_ties_even();
            expected.push((scaled + f32::from(y_zero)).clamp(-128.0, 127.0) as i8);
        }
        for has_constant_weights in [false, true] {
            let run = bench("QLinearConv")
                .input(tensor(&[1, 2, 3, 3], &x))
                .constant(tensor(&[], &[x_scale]))
                .constant(tensor(&[], &[x_zero]));
            let (weights, zeros) = (tensor(&[3, 2, 2, 2], &w), tensor(&[3], &w_zeros));
            let run = if has_constant_weights { run.constant(weights) } else { run.input(weights) };
            let run = run.constant(tensor(&[3], &w_scales));
            let run = if has_constant_weights { run.constant(zeros) } else { run.input(zeros) };
            let y = run
                .constant(tensor(&[], &[y_scale]))
                .constant(tensor(&[], &[y_zero]))
                .constant(tensor(&[3], &bias))
                .ints("pads", &[1; 4])
                .one();
            assert_eq!(y.dims(), [1, 3, 4, 4]);
            assert_eq!(y.values::<i8>(), expected);
        }
    }

    #[derive(Clone, Copy)]
    struct Case {
        channels: usize,
        filters: usize,
        groups: usize,
        kernel: usize,
        stride: i64,
        dilation: i64,
        pad: i64,
    }

    #[test]
    fn every_type_and_shape_matches_the_definition() {
        let plain =
            Case { channels: 5, filters: 7, groups: 1, kernel: 3, stride: 1, dilation: 1, pad: 1 };
        let cases = [
            plain,
            Case { stride: 2, pad: 0, ..plain },
            Case { dilation: 2, pad: 2, ..plain },
            Case { channels: 64, filters: 70, ..plain },
            Case { channels: 3, filters: 16, kernel: 7, stride: 2, pad: 3, ..plain },
            Case { channels: 15, filters: 5, kernel: 2, stride: 3, pad: 0, ..plain },
            Case { channels: 40, filters: 33, kernel: 1, pad: 0, ..plain },
            Case { channels: 6, filters: 9, groups: 3, ..plain },
            Case { channels: 20, filters: 20, groups: 20, ..plain },
            Case { channels: 18, filters: 36, groups: 18, stride: 2, ..plain },
        ];
        for case in cases {
            check::<u8, i8, u8>(case);
            check::<u8, u8, i8>(case);
            check::<i8, i8, i8>(case);
            check::<i8, u8, u8>(case);
            check::<u16, i8, u16>(case);
            check::<i16, u8, i16>(case);
            check::<u8, i8, u16>(case);
            check::<i8, u8, i16>(case);
            check::<i16, i8, u8>(case);
            check::<u16, u8, i8>(case);
        }
    }

    /// Returns the scale for `T` that covers the same range as `scale` does for bytes.
    fn scale_for<T: QuantizedType>(scale: f32) -> f32 {
        if size_of::<T>() == 1 { scale } else { scale / 256.0 }
    }

    /// Compares inputs `X`, weights `W` and outputs `Y` of quantized types with the definition.
    fn check<X: QuantizedType, W: QuantizedType, Y: QuantizedType>(case: Case) {
        const SIDE: usize = 9;
        let Case { channels, filters, groups, kernel, stride, dilation, pad } = case;
        let (group_channels, group_filters) = (channels / groups, filters / groups);
        let taps = kernel * kernel;
        let x: Vec<X> = spread(2 * channels * SIDE * SIDE, 40_537);
        let w: Vec<W> = spread(filters * group_channels * taps, 37);
        let (x_zero, y_zero) = (spread::<X>(2, 30_069)[1], spread::<Y>(2, 799)[1]);
        let w_zeros: Vec<W> = spread(filters, 3);
        let w_scales: Vec<f32> = (0..filters).map(|i| 0.01 + i as f32 * 0.003).collect();
        let (x_scale, y_scale) = (scale_for::<X>(0.02), scale_for::<Y>(1.7));
        let bias: Vec<i32> = (0..filters as i32).map(|i| i * 131 - 500).collect();
        let span = dilation as usize * (kernel - 1) + 1;
        let y_side = (SIDE + 2 * pad as usize - span) / stride as usize + 1;
        let pixels = y_side * y_side;
        let mut expected = Vec::new();
        for index in 0..2 * filters * pixels {
            let (image, filter) = (index / (filters * pixels), index / pixels % filters);
            let [first_row, first_col] =
                [index / y_side % y_side, index % y_side].map(|at| at as i64 * stride - pad);
            let mut sum = i64::from(bias[filter]);
            for term in 0..group_channels * taps {
                let row = first_row + (term / kernel % kernel) as i64 * dilation;
                let col = first_col + (term % kernel) as i64 * dilation;
                if (0..SIDE as i64).contains(&row) && (0..SIDE as i64).contains(&col) {
                    let first_channel = filter / group_filters * group_channels;
                    let plane = image * channels + first_channel + term / taps;
                    let x = x[(plane * SIDE + row as usize) * SIDE + col as usize];
                    let w = w[filter * group_channels * taps + term];
                    let x = i64::from(x.to_i32() - x_zero.to_i32());
                    sum += x * i64::from(w.to_i32() - w_zeros[filter].to_i32());
                }
            }
            let scaled = (sum as f32 * (x_scale * w_scales[filter] / y_scale)).round_ties_even();
            expected.push(Y::from_f32(scaled + y_zero.to_i32() as f32));
        }
        for (has_constant_weights, threads) in [(true, 1), (false, 1), (true, 3)] {
            let weights = tensor(&[filters, group_channels, kernel, kernel], &w);
            let run = bench("QLinearConv")
                .threads(threads)
                .input(tensor(&[2, channels, SIDE, SIDE], &x))
                .constant(tensor(&[], &[x_scale]))
                .constant(tensor(&[], &[x_zero]));
            let run = if has_constant_weights { run.constant(weights) } else { run.input(weights) };
            let y = run
                .constant(tensor(&[filters], &w_scales))
                .constant(tensor(&[filters], &w_zeros))
                .constant(tensor(&[], &[y_scale]))
                .constant(tensor(&[], &[y_zero]))
                .constant(tensor(&[filters], &bias))
                .int("group", groups as i64)
                .ints("strides", &[stride; 2])
                .ints("dilations", &[dilation; 2])
                .ints("pads", &[pad; 4])
                .one();
            let actual: Vec<i32> = y.values::<Y>().iter().map(|value| value.to_i32()).collect();
            let expected: Vec<i32> = expected.iter().map(|value| value.to_i32()).collect();
            assert_eq!(actual, expected);
        }
    }

    /// Volumes of one or two planes, the former with a plane of padding after it.
    #[test]
    fn volumes_match_the_definition() {
        let run = |depth: usize, pad_after: i64, kernel: &[usize], w: &[i8]| {
            let x: Vec<u8> = (1..=depth as u8 * 4).collect();
            let scale = || tensor(&[], &[1f32]);
            bench("QLinearConv")
                .input(tensor(&[1, 1, depth, 2, 2], &x))
                .constant(scale())
                .constant(tensor(&[], &[0u8]))
                .constant(tensor(&[&[1, 1], kernel].concat(), w))
                .constant(scale())
                .constant(tensor(&[], &[0i8]))
                .constant(scale())
                .constant(tensor(&[], &[0u8]))
                .ints("pads", &[0, 0, 0, pad_after, 0, 0])
                .one()
                .values::<u8>()
        };
        assert_eq!(run(2, 0, &[1, 1, 2], &[1, 10]), [21, 43, 65, 87]);
        assert_eq!(run(1, 1, &[1, 1, 2], &[1, 10]), [21, 43, 0, 0]);
        assert_eq!(run(2, 0, &[2, 1, 2], &[1, 10, 2, 20]), [151, 217]);
    }

    /// The 16-bit kernels also accept such nodes, but need scratch memory for their sums. Kernels run in the order in
    /// which they are chosen; those of each width are for channels on the last axis and on the second one.
    #[test]
    fn the_8_bit_kernel_is_chosen_for_8_bit_values() {
        let scalar = |value: f32| tensor(&[], &[value]);
        let node = bench("QLinearConv")
            .input(tensor(&[1, 8, 4, 4], &spread::<u8>(128, 89)))
            .input(scalar(0.5))
            .input(tensor(&[], &[3u8]))
            .constant(tensor(&[4, 8, 1, 1], &spread::<i8>(32, 37)))
            .input(scalar(0.5))
            .input(tensor(&[], &[0i8]))
            .input(scalar(10.0))
            .input(tensor(&[], &[100u8]));
        let runs = node.run().unwrap();
        let scratch: Vec<usize> = runs.iter().map(|run| run.workspace.bytes()).collect();
        let [last_8, second_8, last_16, second_16] = scratch[..] else { panic!("{scratch:?}") };
        assert!(last_8 < last_16 && second_8 < second_16, "{scratch:?}");
    }

    #[test]
    fn sums_beyond_32_bits_do_not_overflow() {
        let depth = 1000;
        let scalar = |value: f32| tensor(&[], &[value]);
        let y = bench("QLinearConv")
            .input(tensor(&[1, depth, 1, 1], &vec![u16::MAX; depth]))
            .input(scalar(1.0))
            .input(tensor(&[], &[0u16]))
            .constant(tensor(&[2, depth, 1, 1], &[vec![-128i8; depth], vec![127; depth]].concat()))
            .input(scalar(1.0))
            .input(tensor(&[], &[0i8]))
            .input(scalar(1e6))
            .input(tensor(&[], &[0i16]))
            .one();
        // 65,535,000 times -128 and 127, over a million.
        assert_eq!(y.values::<i16>(), [-8388, 8323]);
    }

    #[test]
    fn zero_points_must_have_the_type_of_their_values() {
        let scalar = |value: f32| tensor(&[], &[value]);
        let node = bench("QLinearConv")
            .input(tensor(&[1, 1, 1, 1], &[1u16]))
            .input(scalar(1.0))
            .input(tensor(&[], &[0i16]))
            .constant(tensor(&[1, 1, 1, 1], &[1i8]))
            .input(scalar(1.0))
            .input(tensor(&[], &[0i8]))
            .input(scalar(1.0))
            .input(tensor(&[], &[0u16]));
        assert_eq!(node.error(), "a zero point has a different type than its quantized values");
    }

    #[test]
    fn windows_with_too_many_products_are_refused() {
        let run = bench("QLinearConv")
            .input(tensor(&[1, 33_026, 1], &vec![0u8; 33_026]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]))
            .input(tensor(&[1, 33_026, 1], &vec![1u8; 33_026]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]));
        let expected =
            "the convolution exceeds the address space, or a window has more than 33025 products";
        assert_eq!(run.error(), expected);
    }

    #[test]
    fn scales_must_be_one_or_one_per_filter() {
        let run = bench("QLinearConv")
            .input(tensor(&[1, 1, 3], &[0u8; 3]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]))
            .input(tensor(&[3, 1, 1], &[1u8; 3]))
            .input(tensor(&[2], &[1f32; 2]))
            .input(tensor(&[3], &[0u8; 3]))
            .input(tensor(&[], &[1f32]))
            .input(tensor(&[], &[0u8]));
        assert_eq!(run.error(), "input 4 is f32[2], expected 1 or 3 elements");
    }
}
