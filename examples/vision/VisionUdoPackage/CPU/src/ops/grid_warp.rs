//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config ecfc21a161c33c9e
//!
//! GridWarp on the CPU.
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

use udo_api::{
    Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, PortRule, Workspace, input, output,
    types,
};

pub(crate) const KERNEL: KernelDef =
    KernelDef::new::<GridWarpF32>("GridWarp", Core::CPU).ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32),
    input(1, types::F32),
    output(0, types::F32),
];

/// A first kernel: right, and as slow as loops over single elements are. Make it fast; its test holds it to the
/// reference.
struct GridWarpF32 {
    loops: loops::Kept,
}

impl Kernel for GridWarpF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let loops = loops::Kept::of(cx)?;
        Ok(Self { loops })
    }

    fn workspace(&self) -> Workspace {
        self.loops.workspace()
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.loops.execute(io)
    }
}

/// What the reference says, element by element.
#[rustfmt::skip]
mod loops {
    use udo_api::{Error, ExecError, FinalizeCx, Io, Node, Workspace};
    use crate::reference::{
        Fault, List, extents, larger_f32, list_dims, list_item, list_len, list_size, list_unravel,
        place, smaller_f32, wanted,
    };

    /// What finalize keeps.
    pub struct Kept {
        plan: Plan,
        list_0: Reals,
    }

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx)?,
                list_0: cx.floats("fill")?.iter().map(|value| *value as f32).collect::<Reals>(),
            })
        }

        pub fn workspace(&self) -> Workspace {
            Workspace::NONE
        }

        pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
            let Io { inputs, mut outputs, .. } = io;
            let input_0 = inputs.get::<f32>(0)?;
            let input_1 = inputs.get::<f32>(1)?;
            let output_0 = outputs.take::<f32>(0)?;
            execute(&self.plan, input_0, input_1, &self.list_0, output_0)?;
            Ok(())
        }
    }

    type Reals = Box<[f32]>;

    /// What is known of a node with its shapes.
    fn of_node(cx: &Node<'_>) -> Result<Plan, Error> {
        let extents_0 = extents(cx, 0, "image")?;
        let extents_1 = extents(cx, 1, "grid")?;
        let list_0 = cx.floats("fill")?.iter().map(|value| *value as f32).collect::<Reals>();
        plan(extents_0.as_ref().map(List::items), extents_1.as_ref().map(List::items), cx.text("outside")?, &[list_0.len() as i64], &list_0)
            .map_err(wanted)
    }

    #[derive(Debug, Clone, Copy, Default)]
    pub struct Plan {
        pub dims_image: List,
        pub dims_grid: List,
        pub dims_fill: List,
        pub text_0: bool,
        pub text_1: bool,
        pub value_6: bool,
        pub value_8: bool,
        pub dims_warped: List,
    }

    pub fn plan(
        dims_image: Option<&[i64]>,
        dims_grid: Option<&[i64]>,
        outside: &str,
        dims_fill: &[i64],
        _fill: &[f32],
    ) -> Result<Plan, Fault> {
        let mut plan = Plan {
            dims_image: List::of(dims_image.unwrap_or_default()),
            dims_grid: List::of(dims_grid.unwrap_or_default()),
            dims_fill: List::of(dims_fill),
            text_0: outside == "fill",
            text_1: outside == "border",
            ..Plan::default()
        };
        {
            let t1: bool = if list_len(plan.dims_image) == 4_i64 {
                list_len(plan.dims_grid) == 4_i64
            } else {
                false
            };
            let t2: bool = if t1 {
                list_item(plan.dims_grid, 0_i64)? == list_item(plan.dims_image, 0_i64)?
            } else {
                false
            };
            let t3: bool = if t2 {
                list_item(plan.dims_grid, 3_i64)? == 2_i64
            } else {
                false
            };
            if !t3 {
                return Err(Fault("x and y for each pixel of each image"));
            }
        }
        {
            let t1: bool = if plan.text_0 {
                true
            } else {
                plan.text_1
            };
            if !t1 {
                return Err(Fault("outside to be fill or border"));
            }
        }
        {
            let t1 = list_size(plan.dims_fill) == 1_i64;
            if !t1 {
                return Err(Fault("one number to fill with"));
            }
        }
        {
            plan.value_6 = plan.text_1;
        }
        {
            plan.value_8 = plan.text_1;
        }
        {
            plan.dims_warped = list_dims(List::of(&[list_item(plan.dims_image, 0_i64)?, list_item(plan.dims_grid, 1_i64)?, list_item(plan.dims_grid, 2_i64)?, list_item(plan.dims_image, 3_i64)?]))?;
        }
        Ok(plan)
    }

    pub fn execute(
        plan: &Plan,
        image: &[f32],
        grid: &[f32],
        fill: &[f32],
        warped: &mut [f32],
    ) -> Result<Plan, Fault> {
        let plan = *plan;
        {
            for (number, to) in warped.iter_mut().enumerate().take(plan.dims_warped.size()) {
                *to = element_of_warped(&plan, number, grid, image, fill)?;
            }
        }
        Ok(plan)
    }

    fn element_of_warped(
        plan: &Plan,
        number: usize,
        grid: &[f32],
        image: &[f32],
        fill: &[f32],
    ) -> Result<f32, Fault> {
        let at = list_unravel(number as i64, plan.dims_warped);
        let n = list_item(at, 0)?;
        let i = list_item(at, 1)?;
        let j = list_item(at, 2)?;
        let c = list_item(at, 3)?;
        let t1 = place(plan.dims_grid, List::of(&[n, i, j, 0_i64]));
        let t2: f32 = if t1 < 0 {
            return Err(Fault("indices inside of the tensor"));
        } else {
            grid[t1 as usize]
        };
        let x = (((t2 + 1.0_f32) * (list_item(plan.dims_image, 2_i64)? as f32)) - 1.0_f32) / 2.0_f32;
        let t3 = place(plan.dims_grid, List::of(&[n, i, j, 1_i64]));
        let t4: f32 = if t3 < 0 {
            return Err(Fault("indices inside of the tensor"));
        } else {
            grid[t3 as usize]
        };
        let y = (((t4 + 1.0_f32) * (list_item(plan.dims_image, 1_i64)? as f32)) - 1.0_f32) / 2.0_f32;
        let t5: f32 = if plan.value_6 {
            smaller_f32(larger_f32(x, 0.0_f32), list_item(plan.dims_image, 2_i64)?.wrapping_sub(1_i64) as f32)
        } else {
            x
        };
        let u = t5;
        let t6: f32 = if plan.value_8 {
            smaller_f32(larger_f32(y, 0.0_f32), list_item(plan.dims_image, 1_i64)?.wrapping_sub(1_i64) as f32)
        } else {
            y
        };
        let v = t6;
        let left = u.floor() as i64;
        let right = u - (left as f32);
        let top = v.floor() as i64;
        let down = v - (top as f32);
        let t7 = place(plan.dims_image, List::of(&[n, top, left, c]));
        let t8: f32 = if t7 < 0 {
            let t9 = place(plan.dims_fill, List::of(&[0_i64]));
            let t10: f32 = if t9 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                fill[t9 as usize]
            };
            t10
        } else {
            image[t7 as usize]
        };
        let t11 = place(plan.dims_image, List::of(&[n, top, left.wrapping_add(1_i64), c]));
        let t12: f32 = if t11 < 0 {
            let t13 = place(plan.dims_fill, List::of(&[0_i64]));
            let t14: f32 = if t13 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                fill[t13 as usize]
            };
            t14
        } else {
            image[t11 as usize]
        };
        let above = ((1.0_f32 - right) * t8) + (right * t12);
        let t15 = place(plan.dims_image, List::of(&[n, top.wrapping_add(1_i64), left, c]));
        let t16: f32 = if t15 < 0 {
            let t17 = place(plan.dims_fill, List::of(&[0_i64]));
            let t18: f32 = if t17 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                fill[t17 as usize]
            };
            t18
        } else {
            image[t15 as usize]
        };
        let t19 = place(plan.dims_image, List::of(&[n, top.wrapping_add(1_i64), left.wrapping_add(1_i64), c]));
        let t20: f32 = if t19 < 0 {
            let t21 = place(plan.dims_fill, List::of(&[0_i64]));
            let t22: f32 = if t21 < 0 {
                return Err(Fault("indices inside of the tensor"));
            } else {
                fill[t21 as usize]
            };
            t22
        } else {
            image[t19 as usize]
        };
        let below = ((1.0_f32 - right) * t16) + (right * t20);
        Ok(((1.0_f32 - down) * above) + (down * below))
    }
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn a_small_node_is_as_the_reference_says() {
        let outputs = Bench::kernel(KERNEL)
            .input(tensor(&[1, 2, 2, 1], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[1, 1, 2, 2], &[1.5f32, -0.5, 0.25, 2.0]))
            .text("outside", "fill")
            .floats("fill", &[0.0])
            .output_of::<f32>(&[1, 1, 2, 1])
            .all();
        let wanted_0 = &[0.0, 0.0];
        assert_eq!(outputs[0].dims(), [1, 1, 2, 1]);
        assert_near(&outputs[0].values::<f32>(), wanted_0, 1e-7);
    }
}
