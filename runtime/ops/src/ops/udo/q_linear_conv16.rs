//! Convolution of values of up to 16 bits with 8-bit weights, with the exact sums scaled back to such: what `QLinearConv` is for 8 bits.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::conv::{self, ConvPorts, IntegerConv, PARAMS, wide_conv};
use crate::family::quantized::VALUES;
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = wide_conv::<QLinearConv16>();

struct QLinearConv16;

impl Op for QLinearConv16 {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearConv16",
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

impl IntegerConv for QLinearConv16 {
    const NAME: &'static str = "QLinearConv16";
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

    /// Of two images of 6 by 7.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        inputs: usize,
        outputs: usize,
        groups: usize,
        kernel: usize,
        stride: usize,
        pad: usize,
    }

    const PLAIN: Case = Case { inputs: 5, outputs: 3, groups: 1, kernel: 3, stride: 1, pad: 1 };
    const CASES: [Case; 6] = [
        PLAIN,
        Case { kernel: 1, pad: 0, inputs: 33, ..PLAIN },
        Case { stride: 2, inputs: 20, outputs: 18, ..PLAIN },
        Case { inputs: 8, outputs: 4, groups: 2, ..PLAIN },
        Case { inputs: 19, outputs: 19, groups: 19, ..PLAIN },
        Case { inputs: 6, outputs: 12, groups: 6, kernel: 5, pad: 2, ..PLAIN },
    ];

    const SIZE: [usize; 2] = [6, 7];

    fn check<A: QuantizedType, B: QuantizedType, C: QuantizedType>(case: Case, constant: bool) {
        let Case { inputs, outputs, groups, kernel, stride, pad } = case;
        let [height, width] = SIZE;
        let (depth, taps) = (inputs / groups, kernel * kernel);
        let x: Vec<A> = spread(2 * inputs * height * width, 40_503);
        let w: Vec<B> = spread(outputs * depth * taps, 89);
        let w_zeros: Vec<B> = spread(outputs, 7);
        let (x_zero, y_zero) = (spread::<A>(2, 31_007)[1], spread::<C>(2, 1_703)[1]);
        let (x_scale, y_scale) = (0.001f32, 0.4f32);
        let w_scales: Vec<f32> = (0..outputs).map(|o| 0.01 + o as f32 * 0.003).collect();
        let bias: Vec<i32> = (0..outputs as i32).map(|o| o * 130_001 - 500_000).collect();
        let out = |size: usize| (size + 2 * pad - kernel) / stride + 1;
        let [rows, cols] = SIZE.map(out);
        let mut wanted = Vec::new();
        for i in 0..2 * outputs * rows * cols {
            let (image, o) = (i / cols / rows / outputs, i / cols / rows % outputs);
            let (row, col) = (i / cols % rows, i % cols);
            let mut sum = i64::from(bias[o]);
            for k in 0..depth * taps {
                let r = (row * stride + k / kernel % kernel).wrapping_sub(pad);
                let c = (col * stride + k % kernel).wrapping_sub(pad);
                if r < height && c < width {
                    let channel = o / (outputs / groups) * depth + k / taps;
                    let x = x[((image * inputs + channel) * height + r) * width + c];
                    let x = i64::from(x.to_i32()) - i64::from(x_zero.to_i32());
                    let w = w[o * depth * taps + k].to_i32() - w_zeros[o].to_i32();
                    sum += x * i64::from(w);
                }
            }
            let ratio = x_scale * w_scales[o] / y_scale;
            let number = (sum as f32 * ratio).round_ties_even() + y_zero.to_i32() as f32;
            wanted.push(C::from_f32(number));
        }
        let one = |value: f32| tensor(&[], &[value]);
        let weights = tensor(&[outputs, depth, kernel, kernel], &w);
        let (k, s, p, g) = (kernel as i64, stride as i64, pad as i64, groups as i64);
        let node = bench("udo:QLinearConv16")
            .threads(2)
            .ints("kernel_shape", &[k, k])
            .ints("strides", &[s, s])
            .ints("pads", &[p, p, p, p])
            .int("group", g)
            .input(tensor(&[2, inputs, height, width], &x))
            .input(one(x_scale))
            .input(tensor(&[], &[x_zero]));
        let node = if constant { node.constant(weights) } else { node.input(weights) };
        let y = node
            .input(tensor(&[outputs], &w_scales))
            .input(tensor(&[outputs], &w_zeros))
            .input(one(y_scale))
            .input(tensor(&[], &[y_zero]))
            .input(tensor(&[outputs], &bias))
            .one();
        assert_eq!(y.dims(), [2, outputs, rows, cols], "{case:?}");
        assert_eq!(y.values::<C>(), wanted, "{case:?} {} {}", A::DTYPE.name(), C::DTYPE.name());
    }

    #[test]
    fn sums_of_16_bit_values_are_exact() {
        for case in CASES {
            check::<u16, i8, u16>(case, true);
            check::<i16, u8, i16>(case, false);
        }
    }

    #[test]
    fn values_of_8_bits_meet_those_of_16() {
        for case in CASES {
            check::<u8, i8, u16>(case, true);
            check::<i8, u8, i16>(case, true);
            check::<i16, i8, u8>(case, false);
            check::<u16, u8, i8>(case, true);
        }
    }

    /// More than any 32-bit sum holds.
    #[test]
    fn sums_beyond_32_bits_stay_sums() {
        let depth = 1000;
        let one = |value: f32| tensor(&[], &[value]);
        let y = bench("udo:QLinearConv16")
            .input(tensor(&[1, depth, 1, 1], &vec![u16::MAX; depth]))
            .input(one(1.0))
            .input(tensor(&[], &[0u16]))
            .constant(tensor(&[2, depth, 1, 1], &[vec![-128i8; depth], vec![127; depth]].concat()))
            .input(one(1.0))
            .input(tensor(&[], &[0i8]))
            .input(one(1e6))
            .input(tensor(&[], &[0i16]))
            .one();
        // 65,535,000 times -128 and 127, over a million.
        assert_eq!(y.values::<i16>(), [-8388, 8323]);
    }

    #[test]
    fn a_zero_point_has_the_type_of_its_values() {
        let one = |value: f32| tensor(&[], &[value]);
        let node = bench("udo:QLinearConv16")
            .input(tensor(&[1, 1, 1, 1], &[1u16]))
            .input(one(1.0))
            .input(tensor(&[], &[0i16]))
            .constant(tensor(&[1, 1, 1, 1], &[1i8]))
            .input(one(1.0))
            .input(tensor(&[], &[0i8]))
            .input(one(1.0))
            .input(tensor(&[], &[0u16]));
        assert_eq!(node.error(), "a zero point has another type than its quantized values");
    }
}
