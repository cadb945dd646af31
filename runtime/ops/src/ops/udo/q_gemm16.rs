//! Product of two matrices, of values of up to 16 bits and of 8-bit ones that may lie transposed, with an addend for each column; the
//! exact sums are scaled back to such values.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Param, Port, Shape, TensorDesc, Value, types};

use crate::Def;
use crate::family::matmul::{GemmSizes, IntegerProducts, OPERANDS, Ports, wide_products};
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = wide_products::<QGemm16>();

struct QGemm16;

impl Op for QGemm16 {
    const SCHEMA: OpSchema = OpSchema::new(
        "QGemm16",
        &[
            Port::required("A", UP_TO_16_BITS),
            Port::required("a_scale", types::F32),
            Port::required("a_zero_point", UP_TO_16_BITS),
            Port::required("B", OPERANDS),
            // One for all, or one for each column.
            Port::required("b_scale", types::F32),
            Port::required("b_zero_point", OPERANDS),
            Port::optional("C", types::I32),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", UP_TO_16_BITS),
        ],
        &[Port::required("Y", UP_TO_16_BITS)],
        &[
            Param::scalar("transA", DType::I64).default(Value::int(0)),
            Param::scalar("transB", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let Ports { a, b, addend, y_zero, .. } = Self::PORTS;
        let GemmSizes { rows, cols, .. } = GemmSizes::read(cx, [a, b, addend])?;
        let (zero, shape) = (cx.input(y_zero)?, Shape::new(&[rows, cols])?);
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

impl IntegerProducts for QGemm16 {
    const NAME: &'static str = "QGemm16";
    const PORTS: Ports = Ports {
        a_scale: 1,
        a_zero: 2,
        b: 3,
        b_scale: 4,
        b_zero: 5,
        addend: 6,
        y_scale: 7,
        y_zero: 8,
        ..Ports::PLAIN
    };
    const IS_GEMM: bool = true;
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn product(trans: (i64, i64), addend: &[i32]) -> Bench {
        let one = |value: f32| tensor(&[], &[value]);
        bench("udo:QGemm16")
            .int("transA", trans.0)
            .int("transB", trans.1)
            .input(tensor(&[2, 2], &[60_000u16, 50_000, 40_000, 0]))
            .input(one(0.5))
            .input(tensor(&[], &[40_000u16]))
            .constant(tensor(&[2, 2], &[1i8, -2, 3, 100]))
            .input(tensor(&[2], &[2.0f32, 4.0]))
            .input(tensor(&[], &[0i8]))
            .input(tensor(&[addend.len()], addend))
            .input(one(100.0))
            .input(tensor(&[], &[1000i16]))
    }

    #[test]
    fn right_sides_may_lie_transposed() {
        // 20,000 and 10,000 above the zero point, nothing and 40,000 below it.
        assert_eq!(
            product((0, 0), &[0, 5000]).one().values::<i16>(),
            [1500, 20_300, -200, -32_768]
        );
        assert_eq!(
            product((0, 1), &[0, 5000]).one().values::<i16>(),
            [1000, 22_300, 1800, -32_768]
        );
    }

    #[test]
    fn what_it_does_not_take_is_refused() {
        let wanted = "wanted rows of left sides, and one addend for each column";
        assert_eq!(product((1, 0), &[0, 0]).error(), wanted);
        assert_eq!(product((0, 0), &[1]).error(), wanted);
    }
}
