//! Matrix products of 8-bit integers after subtracting their zero points, with exact i32 sums.
//!
//! `integer_products` builds the kernels. `PORTS` tells them the position of each input in the schema; inputs that it
//! does not name do not exist.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::matmul::{IntegerProducts, OPERANDS, Ports, integer_products, output_shape};

pub(crate) const DEF: Def = integer_products::<MatMulInteger>();

struct MatMulInteger;

impl Op for MatMulInteger {
    const SCHEMA: OpSchema = OpSchema::new(
        "MatMulInteger",
        &[
            Port::required("A", OPERANDS),
            Port::required("B", OPERANDS),
            Port::optional("a_zero_point", OPERANDS),
            Port::optional("b_zero_point", OPERANDS),
        ],
        &[Port::required("Y", types::I32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = output_shape(&cx.input(0)?, &cx.input(1)?)?;
        cx.set_output(0, TensorDesc::new(DType::I32, shape))
    }
}

impl IntegerProducts for MatMulInteger {
    const NAME: &'static str = "MatMulInteger";
    const PORTS: Ports = Ports { a_zero: 2, b_zero: 3, ..Ports::PLAIN };
}
