//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config a04f302ff1d760c6
//!
//! GridWarp: the types and shapes of its outputs.
//!
//!     # Pixels at places between -1 and 1, of the four around.
//!     require rank(image) == 4 and rank(grid) == 4 and dim(grid, 0) == dim(image, 0) and dim(grid, 3) == 2, "x and y for each pixel of each image"
//!     require outside == "fill" or outside == "border", "outside to be fill or border"
//!     require size(fill) == 1, "one number to fill with"
//!     warped[n < dim(image, 0), i < dim(grid, 1), j < dim(grid, 2), c < dim(image, 3)] =
//!         let x = ((grid[n, i, j, 0] + 1) * dim(image, 2) - 1) / 2 in
//!         let y = ((grid[n, i, j, 1] + 1) * dim(image, 1) - 1) / 2 in
//!         let u = if outside == "border" then clamp(x, 0, dim(image, 2) - 1) else x in
//!         let v = if outside == "border" then clamp(y, 0, dim(image, 1) - 1) else y in
//!         let left = int(floor(u)) in let right = u - left in
//!         let top = int(floor(v)) in let down = v - top in
//!         let above = (1 - right) * image[n, top, left, c else fill[0]] + right * image[n, top, left + 1, c else fill[0]] in
//!         let below = (1 - right) * image[n, top + 1, left, c else fill[0]] + right * image[n, top + 1, left + 1, c else fill[0]] in
//!         (1 - down) * above + down * below

use udo_api::{DType, Error, InferCx, Op, OpDef, OpSchema, TensorDesc};

use crate::schema::grid_warp as schema;

pub(crate) const OP: OpDef = OpDef::of::<GridWarp>();

struct GridWarp;

impl Op for GridWarp {
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
    use crate::formulas::grid_warp::of_node;
    use crate::inference::shape;

    /// Returns the shapes of the outputs.
    pub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; 1], Error> {
        let plan = of_node(cx)?;
        Ok([
            shape(cx, plan.dims_warped, plan.dims_warped)?,
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
            .input(tensor(&[1, 2, 2, 1], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[1, 1, 2, 2], &[1.5f32, -0.5, 0.25, 2.0]))
            .text("outside", "fill")
            .floats("fill", &[0.0]);
        let outputs = node.infer().unwrap();
        let wanted_0: &[Dim] = &[Dim::Fixed(1), Dim::Fixed(1), Dim::Fixed(2), Dim::Fixed(1)];
        assert!(outputs[0].full_shape().iter().eq(wanted_0.iter().copied()));
    }
}
