//! Quantized transposed convolution: `QLinearConv` for `ConvTranspose`. 8- or 16-bit values, 8-bit weights, exact sums,
//! requantized output.

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
        outputs: usize,
        groups: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pads: [usize; 2],
        more: usize,
    }

    const PLAIN: Case = Case {
        channels: 4,
        outputs: 6,
        groups: 1,
        kernel: 3,
        stride: 2,
        dilation: 1,
        pads: [1, 1],
        more: 1,
    };

    const CASES: [Case; 8] = [
        PLAIN,
        Case { kernel: 2, pads: [0; 2], more: 0, ..PLAIN },
        Case { kernel: 2, outputs: 1, pads: [0; 2], more: 0, ..PLAIN },
        Case { channels: 35, outputs: 19, kernel: 4, more: 0, ..PLAIN },
        Case { groups: 2, stride: 3, pads: [0; 2], more: 2, ..PLAIN },
        Case { groups: 4, outputs: 4, kernel: 4, pads: [0, 2], more: 0, ..PLAIN },
        Case { kernel: 2, dilation: 2, stride: 1, pads: [2, 0], more: 0, ..PLAIN },
        Case { kernel: 1, stride: 3, pads: [0; 2], more: 2, ..PLAIN },
    ];

    const ROWS: usize = 4;
    const COLS: usize = 5;

    /// The reference: scatters each input element of two images.
    fn sums(case: Case, x: &[i64], w: &[i64], bias: &[i32]) -> (Vec<i64>, [usize; 2]) {
        let Case { channels, outputs, groups, kernel, stride, dilation, pads, more } = case;
        let out =
            |n: usize| (n - 1) * stride + (kernel - 1) * dilation + 1 + more - pads[0] - pads[1];
        let (height, width, per_group) = (out(ROWS), out(COLS), outputs / groups);
        let pixels = height * width;
        let mut y: Vec<i64> =
            (0..2 * outputs * pixels).map(|i| bias[i / pixels % outputs].into()).collect();
        for (at, x) in x.iter().enumerate() {
            let (row, col, image) = (at / COLS % ROWS, at % COLS, at / COLS / ROWS / channels);
            let channel = at / COLS / ROWS % channels;
            for k in 0..per_group * kernel * kernel {
                let place =
                    |at: usize, tap: usize| (at * stride + tap * dilation).checked_sub(pads[0]);
                let (r, c) = (place(row, k / kernel % kernel), place(col, k % kernel));
                if let (Some(r), Some(c)) = (r, c)
                    && r < height
                    && c < width
                {
                    let o = channel / (channels / groups) * per_group + k / (kernel * kernel);
                    let weight = w[channel * per_group * kernel * kernel + k];
                    y[((image * outputs + o) * height + r) * width + c] += x * weight;
                }
            }
        }
        (y, [height, width])
    }

    /// Returns the 8-bit step `of_bytes` as the equivalent step of `T`.
    fn step<T: QuantizedType>(of_bytes: f32) -> f32 {
        if size_of::<T>() == 1 { of_bytes } else { of_bytes / 256.0 }
    }

    fn check<A: QuantizedType, B: QuantizedType, C: QuantizedType>(case: Case) {
        let Case { channels, outputs, groups, kernel, stride, dilation, pads, more } = case;
        let per_group = outputs / groups;
        let x: Vec<A> = spread(2 * channels * ROWS * COLS, 40_537);
        let w: Vec<B> = spread(channels * per_group * kernel * kernel, 37);
        let (x_zero, y_zero) = (spread::<A>(2, 30_069)[1], spread::<C>(2, 799)[1]);
        let w_zeros: Vec<B> = spread(per_group, 3);
        let w_scales: Vec<f32> = (0..per_group).map(|i| 0.01 + i as f32 * 0.003).collect();
        let (x_scale, y_scale) = (step::<A>(0.02), step::<C>(0.9));
        let bias: Vec<i32> = (0..outputs as i32).map(|i| i * 131 - 500).collect();
        let off = |values: &[A]| -> Vec<i64> {
            values.iter().map(|x| (x.to_i32() - x_zero.to_i32()).into()).collect()
        };
        let taps = kernel * kernel;
        let weights: Vec<i64> = (w.iter().enumerate())
            .map(|(at, w)| (w.to_i32() - w_zeros[at / taps % per_group].to_i32()).into())
            .collect();
        let (sums, [height, width]) = sums(case, &off(&x), &weights, &bias);
        let expected = sums.iter().enumerate().map(|(at, &sum)| {
            let scale = w_scales[at / height / width % per_group];
            let scaled = (sum as f32 * (x_scale * scale / y_scale)).round_ties_even();
            C::from_f32(scaled + y_zero.to_i32() as f32).to_i32()
        });
        let expected: Vec<i32> = expected.collect();
        let each = |n: usize| [n as i64; 2];
        for (constant, threads) in [(true, 1), (false, 1), (true, 3)] {
            let weights = tensor(&[channels, per_group, kernel, kernel], &w);
            let run = bench("udo:QLinearConvTranspose")
                .threads(threads)
                .input(tensor(&[2, channels, ROWS, COLS], &x))
                .constant(tensor(&[], &[x_scale]))
                .constant(tensor(&[], &[x_zero]));
            let run = if constant { run.constant(weights) } else { run.input(weights) };
            let y = run
                .constant(tensor(&[per_group], &w_scales))
                .constant(tensor(&[per_group], &w_zeros))
                .constant(tensor(&[], &[y_scale]))
                .constant(tensor(&[], &[y_zero]))
                .constant(tensor(&[outputs], &bias))
                .int("group", groups as i64)
                .ints("strides", &each(stride))
                .ints("dilations", &each(dilation))
                .ints("pads", &[each(pads[0]), each(pads[1])].concat())
                .ints("output_padding", &each(more))
                .one();
            assert_eq!(y.dims(), [2, outputs, height, width], "{case:?}");
            let actual: Vec<i32> = y.values::<C>().into_iter().map(C::to_i32).collect();
            assert_eq!(actual, expected, "{case:?}");
        }
    }

    /// Compares every quantized type with the definition, on one thread and on several.
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
    fn scales_are_for_all_outputs_or_for_those_of_a_group() {
        let run = bench("udo:QLinearConvTranspose").input(tensor(&[1, 2, 1, 1], &[1u8, 2]));
        let run = run.input(tensor(&[], &[1f32])).input(tensor(&[], &[0u8]));
        let run = run.input(tensor(&[2, 2, 1, 1], &[1i8, 2, 3, 4]));
        let run = run.input(tensor(&[4], &[1f32; 4])).input(tensor(&[], &[0i8]));
        let run = run.input(tensor(&[], &[1f32])).input(tensor(&[], &[0u8])).int("group", 2);
        assert_eq!(run.error(), "input 4 is f32[4], expected 1 or 2 elements");
    }
}
