//! Matrix product of quantized inputs, dequantized: `(A - a_zero)(B - b_zero) * a_scale * b_scale + bias`.
//!
//! `integer_products` builds the kernels. `PORTS` tells them the position of each input in the schema; inputs that it
//! does not name do not exist. `offset` is the `f32` bias.

use udo_api::{Error, InferCx, Op, OpSchema, Port, types};

use crate::Def;
use crate::family::matmul::{IntegerProducts, OPERANDS, Ports, integer_products, output_shape};

pub(crate) const DEF: Def = integer_products::<MatMulIntegerToFloat>();

struct MatMulIntegerToFloat;

impl Op for MatMulIntegerToFloat {
    const SCHEMA: OpSchema = OpSchema::new(
        "MatMulIntegerToFloat",
        &[
            Port::required("A", OPERANDS),
            Port::required("B", OPERANDS),
            Port::required("a_scale", types::F32),
            Port::required("b_scale", types::F32),
            Port::optional("a_zero_point", OPERANDS),
            Port::optional("b_zero_point", OPERANDS),
            Port::optional("bias", types::F32),
        ],
        &[Port::required("Y", types::F32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = output_shape(&cx.input(0)?, &cx.input(1)?)?;
        cx.set_output(0, cx.input(2)?.with_shape(shape))
    }
}

impl IntegerProducts for MatMulIntegerToFloat {
    const NAME: &'static str = "MatMulIntegerToFloat";
    const PORTS: Ports =
        Ports { a_scale: 2, b_scale: 3, a_zero: 4, b_zero: 5, offset: 6, ..Ports::PLAIN };
}
