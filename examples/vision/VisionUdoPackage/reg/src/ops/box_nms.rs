//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 8f087f0448fa9661
//!
//! BoxNms: the types and shapes of its outputs.
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

/// Shapes, computed from the reference.
#[rustfmt::skip]
mod shapes {
    use udo_api::{Error, InferCx, Shape};
    use crate::formulas::box_nms::of_node;
    use crate::inference::shape;

    /// Returns the shapes of the outputs.
    pub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; 1], Error> {
        let plan = of_node(cx, false)?;
        // Dimensions that elements determine differ between the upper bound and zero.
        let least = of_node(cx, true)?;
        Ok([
            shape(cx, plan.dims_kept, least.dims_kept)?,
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
