//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config fd92b88c6322941d
//!
//! GeGlu: what its outputs look like.
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

/// Shapes as the reference says them.
#[rustfmt::skip]
mod shapes {
    use udo_api::{Error, InferCx, Node, Shape};
    use crate::inference::shape;
    use crate::reference::{
        Fault, List, extents, int_floor_div, list_broadcast, list_dims, list_item, list_join, list_len,
        list_push, list_slice, wanted,
    };

    /// The shapes of the outputs.
    pub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; 1], Error> {
        let plan = of_node(cx)?;
        Ok([
            shape(cx, plan.dims_y, plan.dims_y)?,
        ])
    }

    /// What is known of a node with its shapes.
    fn of_node(cx: &Node<'_>) -> Result<Plan, Error> {
        let extents_0 = extents(cx, 0, "x")?;
        let extents_1 = extents(cx, 1, "bias")?;
        plan(extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items))
            .map_err(wanted)
    }

    #[derive(Debug, Clone, Copy, Default)]
    pub struct Plan {
        pub dims_x: List,
        pub dims_bias: List,
        pub has_bias: bool,
        pub half: i64,
        pub value_1: bool,
        pub value_2: bool,
        pub dims_y: List,
    }

    pub fn plan(dims_x: Option<&[i64]>, dims_bias: Option<&[i64]>) -> Result<Plan, Fault> {
        let mut plan = Plan {
            dims_x: List::of(dims_x.unwrap_or_default()),
            has_bias: dims_bias.is_some(),
            dims_bias: List::of(dims_bias.unwrap_or_default()),
            ..Plan::default()
        };
        {
            plan.half = int_floor_div(list_item(plan.dims_x, -1_i64)?, 2_i64)?;
        }
        {
            let t1 = list_item(plan.dims_x, -1_i64)? == 2_i64.wrapping_mul(plan.half);
            if !t1 {
                return Err(Fault("an even last axis"));
            }
        }
        {
            plan.value_1 = plan.has_bias;
        }
        {
            let t1: bool = if plan.value_1 {
                let t2: bool = if list_len(plan.dims_bias) == 1_i64 {
                    list_item(plan.dims_bias, 0_i64)? == 2_i64.wrapping_mul(plan.half)
                } else {
                    false
                };
                t2
            } else {
                true
            };
            if !t1 {
                return Err(Fault("a number of bias for each number of the last axis"));
            }
        }
        {
            plan.value_2 = plan.has_bias;
        }
        {
            let t1 = if plan.value_2 {
                list_broadcast(plan.dims_x, plan.dims_bias)?
            } else {
                plan.dims_x
            };
            let _ = list_dims(t1)?;
        }
        {
            let mut t1 = List::default();
            list_join(&mut t1, list_slice(plan.dims_x, 0, -1_i64))?;
            list_push(&mut t1, plan.half)?;
            plan.dims_y = list_dims(t1)?;
        }
        Ok(plan)
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
