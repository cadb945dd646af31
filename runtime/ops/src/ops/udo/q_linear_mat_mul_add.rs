//! `QLinearMatMul` with an integer bias per column.
//!
//! `quantized_products` builds the kernels. `PORTS` tells them the position of each input in the schema; inputs that
//! it does not name do not exist. `addend` is the integer that is added to the sums before they are scaled.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::matmul::{IntegerProducts, OPERANDS, Ports, output_shape, quantized_products};
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = quantized_products::<QLinearMatMulAdd>();

struct QLinearMatMulAdd;

impl Op for QLinearMatMulAdd {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearMatMulAdd",
        &[
            Port::required("a", UP_TO_16_BITS),
            Port::required("a_scale", types::F32),
            Port::required("a_zero_point", UP_TO_16_BITS),
            Port::required("b", OPERANDS),
            Port::required("b_scale", types::F32),
            Port::required("b_zero_point", OPERANDS),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", UP_TO_16_BITS),
            // One per column, in units of the sums: `a_scale * b_scale`.
            Port::required("c", types::I32),
        ],
        &[Port::required("y", UP_TO_16_BITS)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = output_shape(&cx.input(0)?, &cx.input(3)?)?;
        let zero = cx.input(7)?;
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

impl IntegerProducts for QLinearMatMulAdd {
    const NAME: &'static str = "QLinearMatMulAdd";
    const PORTS: Ports = Ports {
        a_scale: 1,
        a_zero: 2,
        b: 3,
        b_scale: 4,
        b_zero: 5,
        y_scale: 6,
        y_zero: 7,
        addend: 8,
        ..Ports::PLAIN
    };
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn product(addend: &[i32]) -> Bench {
        let a: Vec<u8> = (0..12).map(|i| i * 20).collect();
        let scalar = |value: f32| tensor(&[], &[value]);
        bench("udo:QLinearMatMulAdd")
            .threads(2)
            .input(tensor(&[2, 2, 3], &a))
            .input(scalar(0.5))
            .input(tensor(&[], &[100u8]))
            .input(tensor(&[3, 2], &[1i8, -2, 3, 4, -5, 6]))
            .input(tensor(&[2], &[0.25f32, 0.5]))
            .input(tensor(&[2], &[0i8, 1]))
            .input(scalar(4.0))
            .input(tensor(&[], &[7i8]))
            .input(tensor(&[addend.len()], addend))
    }

    #[test]
    fn addends_apply_per_column_of_each_matrix() {
        let y = product(&[40, -300]).one();
        assert_eq!(y.dims(), [2, 2, 2]);
        let (b, b_zeros, b_scales) = ([1, -2, 3, 4, -5, 6], [0, 1], [0.25f32, 0.5]);
        let expected = (0..8).map(|index| {
            let (row, column) = (index / 2, index % 2);
            let terms = (0..3)
                .map(|k| ((row * 3 + k) as i32 * 20 - 100) * (b[k * 2 + column] - b_zeros[column]));
            let sum = [40, -300][column] + terms.sum::<i32>();
            let rounded = (sum as f32 * (0.5 * b_scales[column] / 4.0)).round_ties_even();
            (rounded + 7.0).clamp(-128.0, 127.0) as i8
        });
        assert_eq!(y.values::<i8>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn addends_have_one_value_per_column() {
        assert_eq!(product(&[1; 3]).error(), "input 8 is i32[3], expected [2]");
    }
}
