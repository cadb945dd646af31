//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 751effb377850607
//!
//! TopKAbove: the types and shapes of its outputs. Both are as long as there are elements above the
//! threshold, which only a run can say; `k` and the input's length bound it.

use udo_api::{DType, Dim, Error, InferCx, Op, OpDef, OpSchema, Shape, TensorDesc};

use crate::schema::top_k_above as schema;

pub(crate) const OP: OpDef = OpDef::of::<TopKAbove>();

struct TopKAbove;

impl Op for TopKAbove {
    const SCHEMA: OpSchema = schema::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let &[len] = x.shape() else {
            return Err(Error::new(format!("the input is {x}, expected a vector")));
        };
        let k = cx.int("k")?;
        let Some(k) = usize::try_from(k).ok().filter(|&k| k > 0) else {
            return Err(Error::new(format!(
                "parameter \"k\" is {k}, expected 1 or more"
            )));
        };
        let shape = Shape::of_dims(&[Dim::UpTo(k.min(len))])?;
        cx.set_output(0, TensorDesc::new(DType::F32, shape))?;
        cx.set_output(1, TensorDesc::new(DType::I32, shape))
    }
}
