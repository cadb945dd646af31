//! Convolution of 8-bit integers after subtracting their zero points, with exact i32 sums.
//!
//! `integer_conv` builds the kernels. `PORTS` tells them the position of each input in the schema.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::conv::{self, ConvPorts, IntegerConv, PARAMS, integer_conv};
use crate::family::quantized::VALUES;

pub(crate) const DEF: Def = integer_conv::<ConvInteger>();

struct ConvInteger;

impl Op for ConvInteger {
    const SCHEMA: OpSchema = OpSchema::new(
        "ConvInteger",
        &[
            Port::required("x", VALUES),
            Port::required("w", VALUES),
            Port::optional("x_zero_point", VALUES),
            Port::optional("w_zero_point", VALUES),
        ],
        &[Port::required("y", types::I32)],
        PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = conv::infer_shape(Self::DIRECTION, cx, 0, Self::PORTS.w)?;
        cx.set_output(0, TensorDesc::new(DType::I32, shape))
    }
}

impl IntegerConv for ConvInteger {
    const NAME: &'static str = "ConvInteger";
    const PORTS: ConvPorts = ConvPorts { x_zero: 2, w_zero: 3, ..ConvPorts::PLAIN };
}

#[cfg(test)]
mod tests {
    use udo_api::QuantizedType;

    use crate::testing::{bench, tensor};

    fn values<T: QuantizedType>(len: usize, step: usize) -> Vec<T> {
        let lowest = if T::DTYPE == udo_api::DType::U8 { 0.0 } else { -128.0 };
        (0..len).map(|i| T::from_f32((i * step % 256) as f32 + lowest)).collect()
    }

    /// Compares with the definition for images of 5 by 5 pixels, filters of 3 by 3 and a border of one pixel.
    fn matches_the_definition<X: QuantizedType, W: QuantizedType>(
        channels: usize,
        filters: usize,
        groups: usize,
    ) {
        let (group_channels, group_filters) = (channels / groups, filters / groups);
        let x = values::<X>(channels * 25, 29);
        let w = values::<W>(filters * group_channels * 9, 37);
        let (x_zero, w_zeros) = (values::<X>(3, 50)[2], values::<W>(filters, 11));
        let mut expected = Vec::new();
        for (filter, y_row, y_col) in (0..filters * 25).map(|i| (i / 25, i / 5 % 5, i % 5)) {
            let mut sum = 0;
            for (channel, tap) in (0..group_channels).flat_map(|i| (0..9).map(move |tap| (i, tap)))
            {
                let row = (y_row + tap / 3).wrapping_sub(1);
                let col = (y_col + tap % 3).wrapping_sub(1);
                if row < 5 && col < 5 {
                    let first_channel = filter / group_filters * group_channels;
                    let x = x[(first_channel + channel) * 25 + row * 5 + col].to_i32();
                    let w = w[(filter * group_channels + channel) * 9 + tap].to_i32();
                    sum += (x - x_zero.to_i32()) * (w - w_zeros[filter].to_i32());
                }
            }
            expected.push(sum);
        }
        for (threads, has_constant_weights) in [(1, true), (3, true), (1, false)] {
            let run = bench("ConvInteger").threads(threads).input(tensor(&[1, channels, 5, 5], &x));
            let weights = tensor(&[filters, group_channels, 3, 3], &w);
            let run = if has_constant_weights { run.constant(weights) } else { run.input(weights) };
            let run = run.input(tensor(&[], &[x_zero])).input(tensor(&[filters], &w_zeros));
            let y = run.ints("pads", &[1; 4]).int("group", groups as i64).one();
            assert_eq!((y.dims(), y.values::<i32>()), (vec![1, filters, 5, 5], expected.clone()));
        }
    }

    #[test]
    fn sums_match_the_definition() {
        for (channels, filters, groups) in [(3, 5, 1), (20, 33, 1), (6, 4, 2), (8, 16, 8)] {
            matches_the_definition::<u8, u8>(channels, filters, groups);
            matches_the_definition::<u8, i8>(channels, filters, groups);
            matches_the_definition::<i8, i8>(channels, filters, groups);
            matches_the_definition::<i8, u8>(channels, filters, groups);
        }
    }

    #[test]
    fn zero_points_are_optional() {
        let run = bench("ConvInteger").input(tensor(&[1, 1, 1, 2], &[-3i8, 100]));
        let y = run.input(tensor(&[1, 1, 1, 2], &[-1i8, 2])).one();
        assert_eq!(y.values::<i32>(), [203]);
    }
}
