//! Quantized `alpha * A * B + C`, with either matrix transposed; the output is requantized or dequantized. A 16-bit
//! left side cannot be transposed, and its output is always quantized.
//!
//! `quantized_or_plain_products` builds the kernels. `PORTS` tells them the position of each input in the schema;
//! inputs that it does not name do not exist. `addend` is the integer that is added to the sums before they are
//! scaled.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Param, Port, Shape, TensorDesc, Value, types};

use crate::Def;
use crate::family::matmul::{
    GemmSizes, IntegerProducts, OPERANDS, Ports, quantized_or_plain_products,
};
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = quantized_or_plain_products::<QGemm>();

struct QGemm;

impl Op for QGemm {
    const SCHEMA: OpSchema = OpSchema::new(
        "QGemm",
        &[
            Port::required("A", UP_TO_16_BITS),
            Port::required("a_scale", types::F32),
            Port::required("a_zero_point", UP_TO_16_BITS),
            Port::required("B", OPERANDS),
            Port::required("b_scale", types::F32),
            Port::required("b_zero_point", OPERANDS),
            Port::optional("C", types::I32),
            Port::optional("y_scale", types::F32),
            Port::optional("y_zero_point", UP_TO_16_BITS),
        ],
        &[Port::required("Y", UP_TO_16_BITS.or(types::F32))],
        &[
            Param::scalar("transA", DType::I64).default(Value::int(0)),
            Param::scalar("transB", DType::I64).default(Value::int(0)),
            Param::scalar("alpha", DType::F32).default(Value::float(1.0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let Ports { a, b, addend, y_scale, y_zero, .. } = Self::PORTS;
        let GemmSizes { rows, cols, .. } = GemmSizes::read(cx, [a, b, addend])?;
        if cx.has_input(y_scale) != cx.has_input(y_zero) {
            return Err(Error::new(format!(
                "one of inputs {y_scale} and {y_zero}, scale and zero point of the result, is missing"
            )));
        }
        let zero = if cx.has_input(y_zero) { cx.input(y_zero)?.dtype() } else { None };
        let shape = Shape::new(&[rows, cols])?;
        cx.set_output(0, TensorDesc::new(zero.unwrap_or(DType::F32), shape))
    }
}

impl IntegerProducts for QGemm {
    const NAME: &'static str = "QGemm";
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
