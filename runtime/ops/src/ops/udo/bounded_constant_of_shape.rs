//! `ConstantOfShape` with a shape that the kernel reads from the input in each run. The parameters `least` and `most`
//! bound its extents.

use udo_api::{
    Core, Error, InferCx, KernelDef, Op, OpSchema, Port, TensorDesc, input, output, types,
};

use crate::Def;
use crate::family::bounded::{LEAST, MOST, shape};
use crate::family::filled::{Filled, VALUE, dtype};

pub(crate) const DEF: Def = Def::new::<BoundedConstantOfShape>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Filled>("BoundedConstantOfShape", Core::CPU)
    .ports(&[input(0, types::I64), output(0, types::ANY).bounded()])];

struct BoundedConstantOfShape;

impl Op for BoundedConstantOfShape {
    const SCHEMA: OpSchema = OpSchema::new(
        "BoundedConstantOfShape",
        &[Port::required("input", types::I64)],
        &[Port::required("output", types::ANY)],
        &[LEAST, MOST, VALUE],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = shape(cx)?;
        let dtype = dtype(cx)?;
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}
