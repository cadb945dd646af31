//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 0ab7984a0153f910
//!
//! GridWarp on the GPU: its launches, and one work item in Rust.
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
    Error, FinalizeCx, GpuKernel, KernelDef, KernelInfo, PortRule, WorkItemFn, input, input_like,
    output_like, types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::gpu::<GridWarpGpu>("GridWarp").ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32.or(types::F16)),
    input_like(1, 0),
    output_like(0, 0),
];

const SOURCE: &str = concat!(
    "#line 1 \"common/reference.cl\"\n",
    include_str!("../../../common/reference.cl"),
    "#line 1 \"GPU/kernels/grid_warp.cl\"\n",
    include_str!("../../kernels/grid_warp.cl"),
);

/// A first kernel: correct, but slow, with a work item for each element. Make it fast; its test
/// compares it with the reference.
struct GridWarpGpu {
    items: items::Kept,
}

impl GpuKernel for GridWarpGpu {
    const WORK_ITEMS: &'static [WorkItemFn<Self>] = items::ALL;

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let items = items::Kept::of(cx)?;
        Ok(Self { items })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        self.items.launches(SOURCE, info);
        Ok(())
    }
}

/// The work items of `kernels/grid_warp.cl`, in Rust for the emulated GPU.
#[rustfmt::skip]
mod items {
    use udo_api::{Buffers, Error, ExecError, FinalizeCx, GpuArg, KernelInfo, Launch, WorkItemFn};
    use crate::formulas::grid_warp::{Plan, element_of_warped, of_node};
    use crate::constants::{text_of_int, text_of_list, text_of_reals};

    /// The state from finalize.
    pub struct Kept {
        plan: Plan,
        list_0: Reals,
    }

    /// The work items of the launches, in order.
    pub const ALL: &[WorkItemFn<super::GridWarpGpu>] = &[
        |kernel, item, buffers| kernel.items.item_of_warped(item.global_id[0], buffers),
    ];

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx)?,
                list_0: cx.floats("fill")?.iter().map(|value| *value as f32).collect::<Reals>(),
            })
        }

        /// Adds a launch for each tensor, with the constants that depend on shapes.
        pub fn launches(&self, source: &str, info: &mut KernelInfo) {
            let mut text = constants(&self.plan, &self.list_0);
            text += source;
            // A launch without work items is refused if an output has elements.
            let least = usize::from(self.plan.dims_warped.size() > 0);
            let count = self.plan.dims_warped.size().max(least);
            let mut launch = Launch::new(text.clone(), "grid_warp_warped");
            launch.args.push(GpuArg::input(1));
            launch.args.push(GpuArg::input(0));
            launch.args.push(GpuArg::output(0));
            info.push_launch(launch.global_size([count, 1, 1]));
        }

        fn item_of_warped(&self, number: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
            if number >= self.plan.dims_warped.size() {
                return Ok(());
            }
            let value = element_of_warped(&self.plan, number, |at| buffers.load(1, at), |at| buffers.load(0, at), |at| Ok::<_, ExecError>(self.list_0[at]))?;
            buffers.store(0, number, value)?;
            Ok(())
        }
    }

    type Reals = Box<[f32]>;

    /// Returns the OpenCL C constants that depend on shapes, which precede the source.
    pub fn constants(plan: &Plan, fill: &[f32]) -> String {
        let fields = [
            text_of_list(plan.dims_image),
            text_of_int(i64::from(plan.has_image)),
            text_of_list(plan.dims_grid),
            text_of_int(i64::from(plan.has_grid)),
            text_of_list(plan.dims_fill),
            text_of_int(i64::from(plan.text_0)),
            text_of_int(i64::from(plan.text_1)),
            text_of_int(i64::from(plan.value_6)),
            text_of_int(i64::from(plan.value_8)),
            text_of_list(plan.dims_warped),
        ];
        let mut text = format!("#define PLAN {{{}}}\n", fields.join(", "));
        text += &format!("#define LIST_fill {}\n", text_of_reals(fill));
        text
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
