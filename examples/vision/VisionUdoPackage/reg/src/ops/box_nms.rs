//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 8f087f0448fa9661
//!
//! BoxNms: what its outputs look like.
//!
//!     # Boxes x0, y0, x1, y1 by score, without those that have too much in common with one that is kept.
//!     let n = dim(boxes, 0)
//!     require rank(boxes) == 2 and rank(scores) == 1 and dim(boxes, 1) == 4 and dim(scores, 0) == n, "four corners and a score for each box"
//!     let area[i < n] = (boxes[i, 2] - boxes[i, 0]) * (boxes[i, 3] - boxes[i, 1])
//!     let common[i < n, j < n] =
//!         max(0, min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0]))
//!         * max(0, min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1]))
//!     kept = select[r < n; s](true, by = scores[r], limit = limit,
//!         unless = common[s, r] > threshold * (area[s] + area[r] - common[s, r]))

use udo_api::{DType, Error, InferCx, Op, OpDef, OpSchema, TensorDesc};

use crate::schema::box_nms as schema;

pub(crate) const OP: OpDef = OpDef::of::<BoxNms>();

struct BoxNms;

impl Op for BoxNms {
    const SCHEMA: OpSchema = schema::SCHEMA;

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shapes = shapes::outputs(cx)?;
        let of = DType::I32;
        cx.set_output(0, TensorDesc::new(of, shapes[0]))?;
        Ok(())
    }
}

/// Shapes as the reference says them.
#[rustfmt::skip]
mod shapes {
    use udo_api::{Error, InferCx, Node, Shape};
    use crate::inference::shape;
    use crate::reference::{Fault, List, extents, list_dims, list_item, list_len, wanted};

    /// The shapes of the outputs.
    pub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; 1], Error> {
        let plan = of_node(cx, false)?;
        // What the elements decide differs between as many as there may be and none.
        let least = of_node(cx, true)?;
        Ok([
            shape(cx, plan.dims_kept, least.dims_kept)?,
        ])
    }

    /// What is known of a node with its shapes.
    fn of_node(cx: &Node<'_>, least: bool) -> Result<Plan, Error> {
        let extents_0 = extents(cx, 0, "boxes")?;
        let extents_1 = extents(cx, 1, "scores")?;
        plan(least, extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items), cx.float("threshold")?, cx.int("limit")?)
            .map_err(wanted)
    }

    #[derive(Debug, Clone, Copy, Default)]
    pub struct Plan {
        pub dims_boxes: List,
        pub dims_scores: List,
        pub limit: i64,
        pub n: i64,
        pub dims_part_2: List,
        pub dims_kept: List,
    }

    pub fn plan(
        least: bool,
        dims_boxes: Option<&[i64]>,
        dims_scores: Option<&[i64]>,
        _threshold: f64,
        limit: i64,
    ) -> Result<Plan, Fault> {
        let mut plan = Plan {
            dims_boxes: List::of(dims_boxes.unwrap_or_default()),
            dims_scores: List::of(dims_scores.unwrap_or_default()),
            limit,
            ..Plan::default()
        };
        {
            plan.n = list_item(plan.dims_boxes, 0_i64)?;
        }
        {
            let t1: bool = if list_len(plan.dims_boxes) == 2_i64 {
                list_len(plan.dims_scores) == 1_i64
            } else {
                false
            };
            let t2: bool = if t1 {
                list_item(plan.dims_boxes, 1_i64)? == 4_i64
            } else {
                false
            };
            let t3: bool = if t2 {
                list_item(plan.dims_scores, 0_i64)? == plan.n
            } else {
                false
            };
            if !t3 {
                return Err(Fault("four corners and a score for each box"));
            }
        }
        {
            let _ = list_dims(List::of(&[plan.n]))?;
        }
        {
            let _ = list_dims(List::of(&[plan.n, plan.n]))?;
        }
        {
            plan.dims_part_2 = list_dims(if least { List::of(&[0]) } else { List::of(&[plan.n.min(plan.limit)]) })?;
        }
        {
            plan.dims_kept = list_dims(plan.dims_part_2)?;
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
        #[rustfmt::skip]
        let node = Bench::op(OP, &[])
            .input(tensor(&[2, 4], &[1.5f32, -0.5, 0.25, 2.0, -1.25, 0.75, 3.0, -2.5]))
            .input(tensor(&[2], &[1.5f32, -0.5]))
            .float("threshold", 0.5)
            .int("limit", 100);
        let outputs = node.infer().unwrap();
        let wanted_0: &[Dim] = &[Dim::UpTo(2)];
        assert!(outputs[0].full_shape().iter().eq(wanted_0.iter().copied()));
    }
}
