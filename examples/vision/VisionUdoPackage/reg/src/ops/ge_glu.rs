//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config fd92b88c6322941d
//!
//! GeGlu: the types and shapes of its outputs.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{DType, Error, InferCx, Op, OpDef, OpSchema, TensorDesc};

use crate::schema::ge_glu as schema;

pub(crate) const OP: OpDef = OpDef::of::<GeGlu>();

struct GeGlu;

impl Op for GeGlu {
    const SCHEMA: OpSchema = schema::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shapes = shapes::outputs(cx)?;
        let of = cx.input(0)?.dtype().unwrap_or(DType::F32);
        cx.set_output(0, TensorDesc::new(of, shapes[0]))?;
        Ok(())
    }
}

/// Shapes, computed from the reference.
#[rustfmt::skip]
mod shapes {
    use udo_api::{Error, InferCx, Shape};
    use crate::formulas::ge_glu::of_node;
    use crate::inference::shape;

    /// Returns the shapes of the outputs.
    pub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; 1], Error> {
        let plan = of_node(cx)?;
        Ok([
            shape(cx, plan.dims_y, plan.dims_y)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;
    use udo_testing::{Bench, tensor};

    use super::OP;

    #[test]
    fn the_shapes_of_a_small_node_are_those_of_the_reference() {
        let node = Bench::op(OP, &[])
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]));
        let outputs = node.infer().unwrap();
        let wanted_0: &[Dim] = &[Dim::Fixed(2)];
        assert!(outputs[0].full_shape().iter().eq(wanted_0.iter().copied()));
    }
}
