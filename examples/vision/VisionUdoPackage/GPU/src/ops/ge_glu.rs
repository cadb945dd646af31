//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 6d32dc943cef2c7f
//!
//! GeGlu on the GPU: its launches, and one work item in Rust.
//!
//!     # One half of the last axis, gated by the other.
//!     let half = dim(x, -1) // 2
//!     require dim(x, -1) == 2 * half, "an even last axis"
//!     require if present(bias) then rank(bias) == 1 and dim(bias, 0) == 2 * half else true, "a number of bias for each number of the last axis"
//!     let z = if present(bias) then x + bias else x
//!     y[b.. < dims(x)[:-1], j < half] =
//!         let gate = z[b.., j + half] in z[b.., j] * 0.5 * gate * (1 + erf(gate / sqrt(2.0)))

use udo_api::{
    Error, FinalizeCx, GpuKernel, KernelDef, KernelInfo, PortRule, WorkItemFn, input, input_like,
    output_like, types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::gpu::<GeGluGpu>("GeGlu").ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32.or(types::F16)),
    input_like(1, 0),
    output_like(0, 0),
];

const SOURCE: &str = concat!(
    "#line 1 \"common/reference.cl\"\n",
    include_str!("../../../common/reference.cl"),
    "#line 1 \"GPU/kernels/ge_glu.cl\"\n",
    include_str!("../../kernels/ge_glu.cl"),
);

/// A first kernel: correct, but slow, with a work item for each element. Make it fast; its test
/// compares it with the reference.
struct GeGluGpu {
    items: items::Kept,
}

impl GpuKernel for GeGluGpu {
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

/// The work items of `kernels/ge_glu.cl`, in Rust for the emulated GPU.
#[rustfmt::skip]
mod items {
    use udo_api::{Buffers, Error, ExecError, FinalizeCx, GpuArg, KernelInfo, Launch, WorkItemFn};
    use crate::formulas::ge_glu::{Plan, element_of_y, element_of_z, of_node};
    use crate::constants::{text_of_int, text_of_list};

    /// The state from finalize.
    pub struct Kept {
        plan: Plan,
        has_1: bool,
    }

    /// The work items of the launches, in order.
    pub const ALL: &[WorkItemFn<super::GeGluGpu>] = &[
        |kernel, item, buffers| kernel.items.item_of_z(item.global_id[0], buffers),
        |kernel, item, buffers| kernel.items.item_of_y(item.global_id[0], buffers),
    ];

    impl Kept {
        pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self {
                plan: of_node(cx)?,
                has_1: cx.has_input(1),
            })
        }

        /// Adds a launch for each tensor, with the constants that depend on shapes.
        pub fn launches(&self, source: &str, info: &mut KernelInfo) {
            let mut text = constants(&self.plan);
            text += source;
            info.push_scratch((self.plan.dims_z.size() * 4).max(8));
            // A launch without work items is refused if an output has elements.
            let least = usize::from(self.plan.dims_y.size() > 0);
            let count = self.plan.dims_z.size().max(least);
            let mut launch = Launch::new(text.clone(), "ge_glu_z");
            launch.args.push(GpuArg::input(0));
            if self.has_1 { launch.args.push(GpuArg::input(1)); }
            launch.args.push(GpuArg::scratch(0));
            info.push_launch(launch.global_size([count, 1, 1]));
            let count = self.plan.dims_y.size().max(least);
            let mut launch = Launch::new(text.clone(), "ge_glu_y");
            launch.args.push(GpuArg::scratch(0));
            launch.args.push(GpuArg::output(0));
            info.push_launch(launch.global_size([count, 1, 1]));
        }

        fn item_of_z(&self, number: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
            if number >= self.plan.dims_z.size() {
                return Ok(());
            }
            let value = element_of_z(&self.plan, number, |at| buffers.load(0, at), |at| buffers.load(1, at))?;
            buffers.set_scratch(0, number, value)?;
            Ok(())
        }

        fn item_of_y(&self, number: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
            if number >= self.plan.dims_y.size() {
                return Ok(());
            }
            let value = element_of_y(&self.plan, number, |at| buffers.get_scratch::<f32>(0, at))?;
            buffers.store(0, number, value)?;
            Ok(())
        }
    }

    /// Returns the OpenCL C constants that depend on shapes, which precede the source.
    pub fn constants(plan: &Plan) -> String {
        let fields = [
            text_of_list(plan.dims_x),
            text_of_int(i64::from(plan.has_x)),
            text_of_list(plan.dims_bias),
            text_of_int(i64::from(plan.has_bias)),
            text_of_int(plan.half),
            text_of_int(i64::from(plan.value_1)),
            text_of_int(i64::from(plan.value_2)),
            text_of_list(plan.dims_z),
            text_of_list(plan.dims_y),
        ];
        let mut text = format!("#define PLAN {{{}}}\n", fields.join(", "));
        if plan.has_bias {
            text.push_str("#define HAS_bias\n");
        }
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
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .input(tensor(&[4], &[1.5f32, -0.5, 0.25, 2.0]))
            .output_of::<f32>(&[2])
            .all();
        let wanted_0 = &[1.0371936919110194, -3.9998733150326675];
        assert_eq!(outputs[0].dims(), [2]);
        assert_near(&outputs[0].values::<f32>(), wanted_0, 1e-5);
    }
}
