//! Quantized matrix products: 8- or 16-bit left side, 8-bit right side, exact sums, requantized output.
//!
//! `quantized_products` builds the kernels. `PORTS` tells them the position of each input in the schema; inputs that
//! it does not name do not exist.

use udo_api::{Error, InferCx, Op, OpSchema, Port, TensorDesc, TypeSet, types};

use crate::Def;
use crate::family::matmul::{IntegerProducts, OPERANDS, Ports, output_shape, quantized_products};
use crate::family::quantized::byte_planes::UP_TO_16_BITS;

pub(crate) const DEF: Def = quantized_products::<QLinearMatMul>();

const SCALES: TypeSet = types::F32.or(types::F16).or(types::BF16);

struct QLinearMatMul;

impl Op for QLinearMatMul {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearMatMul",
        &[
            Port::required("a", UP_TO_16_BITS),
            Port::required("a_scale", SCALES),
            Port::required("a_zero_point", UP_TO_16_BITS),
            Port::required("b", OPERANDS),
            Port::required("b_scale", SCALES),
            Port::required("b_zero_point", OPERANDS),
            Port::required("y_scale", SCALES),
            Port::required("y_zero_point", UP_TO_16_BITS),
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

impl IntegerProducts for QLinearMatMul {
    const NAME: &'static str = "QLinearMatMul";
    const PORTS: Ports = Ports {
        a_scale: 1,
        a_zero: 2,
        b: 3,
        b_scale: 4,
        b_zero: 5,
        y_scale: 6,
        y_zero: 7,
        ..Ports::PLAIN
    };
}
