//! Matrix product with a quantized right side; each run quantizes the left side to the range of its values.
//!
//! `integer_products` builds the kernels. `PORTS` tells them the position of each input in the schema; inputs that it
//! does not name do not exist. `offset` is the `f32` bias. `QUANTIZES` says that the left side is quantized in the
//! run.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Port, TensorDesc, types};

use crate::Def;
use crate::family::matmul::{IntegerProducts, OPERANDS, Ports, integer_products, output_shape};

pub(crate) const DEF: Def = integer_products::<DynamicQuantizeMatMul>();

struct DynamicQuantizeMatMul;

impl Op for DynamicQuantizeMatMul {
    const SCHEMA: OpSchema = OpSchema::new(
        "DynamicQuantizeMatMul",
        &[
            Port::required("A", types::F32),
            Port::required("B", OPERANDS),
            Port::required("b_scale", types::F32),
            Port::optional("b_zero_point", OPERANDS),
            Port::optional("bias", types::F32),
        ],
        &[Port::required("Y", types::F32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = output_shape(&cx.input(0)?, &cx.input(1)?)?;
        cx.set_output(0, TensorDesc::new(DType::F32, shape))
    }
}

impl IntegerProducts for DynamicQuantizeMatMul {
    const NAME: &'static str = "DynamicQuantizeMatMul";
    const PORTS: Ports = Ports { b_scale: 2, b_zero: 3, offset: 4, ..Ports::PLAIN };
    const QUANTIZES: bool = true;
}
