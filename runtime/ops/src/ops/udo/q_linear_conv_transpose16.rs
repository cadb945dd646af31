//! Transposed convolution of values of up to 16 bits with 8-bit weights, with the exact sums scaled back to such.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::conv::{self, ConvPorts, Direction, IntegerConv, TRANSPOSED_PARAMS, wide_conv};
use crate::family::quantized::VALUES;
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = wide_conv::<QLinearConvTranspose16>();

struct QLinearConvTranspose16;

impl Op for QLinearConvTranspose16 {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearConvTranspose16",
        &[
            Port::required("x", UP_TO_16_BITS),
            Port::required("x_scale", types::F32),
            Port::required("x_zero_point", UP_TO_16_BITS),
            Port::required("w", VALUES),
            // One for all, or one for each output channel of a group: the second axis of the weights.
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

impl IntegerConv for QLinearConvTranspose16 {
    const NAME: &'static str = "QLinearConvTranspose16";
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
    use crate::testing::{bench, spread, tensor};

    /// A stride of the kernel's size, so that no results meet: each is one sum over channels.
    #[test]
    fn sums_of_each_tap_are_exact() {
        let (channels, outputs, groups) = (6, 4, 2);
        let x = spread::<u16>(channels * 3 * 5, 40_503);
        let w = spread::<i8>(channels * outputs / groups * 4, 89);
        let (x_zero, y_zero, w_zeros) = (31_007u16, 40_000u16, [3i8, -5]);
        let w_scales = [0.5f32, 0.01];
        let bias = [7i32, -100_000, 250_000, 3];
        let one = |value: f32| tensor(&[], &[value]);
        let y = bench("udo:QLinearConvTranspose16")
            .threads(2)
            .ints("strides", &[2, 2])
            .int("group", 2)
            .input(tensor(&[1, channels, 3, 5], &x))
            .input(one(0.002))
            .input(tensor(&[], &[x_zero]))
            .constant(tensor(&[channels, outputs / groups, 2, 2], &w))
            .input(tensor(&[2], &w_scales))
            .input(tensor(&[2], &w_zeros))
            .input(one(0.4))
            .input(tensor(&[], &[y_zero]))
            .input(tensor(&[outputs], &bias))
            .one();
        assert_eq!(y.dims(), [1, outputs, 6, 10]);
        let wanted = (0..outputs * 60).map(|at| {
            let (o, row, col) = (at / 60, at / 10 % 6, at % 10);
            let terms = (0..channels / groups).map(|k| {
                let channel = o / 2 * 3 + k;
                let x = i64::from(x[(channel * 3 + row / 2) * 5 + col / 2]) - i64::from(x_zero);
                let w = w[((channel * 2 + o % 2) * 2 + row % 2) * 2 + col % 2];
                x * (i64::from(w) - i64::from(w_zeros[o % 2]))
            });
            let sum = i64::from(bias[o]) + terms.sum::<i64>();
            let number = (sum as f32 * (0.002 * w_scales[o % 2] / 0.4)).round_ties_even();
            (number + f32::from(y_zero)) as u16
        });
        assert_eq!(y.values::<u16>(), wanted.collect::<Vec<_>>());
    }
}
