//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 6d32dc943cef2c7f
//!
//! GeGlu on the GPU: how it is launched, and one work item of it in Rust.
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

const SOURCE: &str = include_str!("../../kernels/ge_glu.cl");

/// A first kernel: right, and as slow as a work item for each element is. Make it fast; its test holds it to the
/// reference.
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

/// What the reference says, element by element: the work items of `kernels/ge_glu.cl`, for the emulated GPU.
#[rustfmt::skip]
mod items {
    use udo_api::{Buffers, Error, ExecError, FinalizeCx, GpuArg, KernelInfo, Launch, Node, WorkItemFn};
    use crate::constants::{text_of_int, text_of_list};
    use crate::reference::{
        Fault, List, erf_f32, extents, int_floor_div, list_align, list_broadcast, list_dims, list_item,
        list_join, list_len, list_push, list_slice, list_unravel, place, wanted,
    };

    /// What finalize keeps.
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

        /// A launch for each tensor, behind what is known with the shapes.
        pub fn launches(&self, source: &str, info: &mut KernelInfo) {
            let mut text = constants(&self.plan);
            text += source;
            info.push_scratch((self.plan.dims_z.size() * 4).max(8));
            // A launch over nothing is refused while an output has elements.
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
            let value = element_of_z(&self.plan, number, self, buffers)?;
            buffers.set_scratch(0, number, value)?;
            Ok(())
        }

        fn item_of_y(&self, number: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
            if number >= self.plan.dims_y.size() {
                return Ok(());
            }
            let value = element_of_y(&self.plan, number, self, buffers)?;
            buffers.store(0, number, value)?;
            Ok(())
        }
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
        pub has_x: bool,
        pub dims_bias: List,
        pub has_bias: bool,
        pub half: i64,
        pub value_1: bool,
        pub value_2: bool,
        pub dims_z: List,
        pub dims_y: List,
    }

    pub fn plan(dims_x: Option<&[i64]>, dims_bias: Option<&[i64]>) -> Result<Plan, Fault> {
        let mut plan = Plan {
            has_x: dims_x.is_some(),
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
            plan.dims_z = list_dims(t1)?;
        }
        {
            let mut t1 = List::default();
            list_join(&mut t1, list_slice(plan.dims_x, 0, -1_i64))?;
            list_push(&mut t1, plan.half)?;
            plan.dims_y = list_dims(t1)?;
        }
        Ok(plan)
    }

    /// What stands before the OpenCL C: what is known with the shapes, as constants.
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

    fn element_of_z(
        plan: &Plan,
        number: usize,
        _kept: &Kept,
        buffers: &Buffers<'_>,
    ) -> Result<f32, ExecError> {
        let here = list_unravel(number as i64, plan.dims_z);
        let t1: f32 = if plan.value_2 {
            let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
            let t3: f32 = if t2 < 0 {
                return Err(Fault("indices inside of the tensor").into());
            } else {
                buffers.load(0, t2 as usize)?
            };
            let t4 = place(plan.dims_bias, list_align(here, plan.dims_bias));
            let t5: f32 = if t4 < 0 {
                return Err(Fault("indices inside of the tensor").into());
            } else {
                buffers.load(1, t4 as usize)?
            };
            t3 + t5
        } else {
            let t2 = place(plan.dims_x, list_align(here, plan.dims_x));
            let t3: f32 = if t2 < 0 {
                return Err(Fault("indices inside of the tensor").into());
            } else {
                buffers.load(0, t2 as usize)?
            };
            t3
        };
        Ok(t1)
    }

    fn element_of_y(
        plan: &Plan,
        number: usize,
        _kept: &Kept,
        buffers: &Buffers<'_>,
    ) -> Result<f32, ExecError> {
        let at = list_unravel(number as i64, plan.dims_y);
        let t7 = list_len(list_slice(plan.dims_x, 0, -1_i64));
        let b = list_slice(at, 0, t7);
        let j = list_item(at, t7)?;
        let mut t1 = List::default();
        list_join(&mut t1, b)?;
        list_push(&mut t1, j.wrapping_add(plan.half))?;
        let t2 = place(plan.dims_z, t1);
        let t3: f32 = if t2 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            buffers.get_scratch::<f32>(0, t2 as usize)?
        };
        let gate = t3;
        let mut t4 = List::default();
        list_join(&mut t4, b)?;
        list_push(&mut t4, j)?;
        let t5 = place(plan.dims_z, t4);
        let t6: f32 = if t5 < 0 {
            return Err(Fault("indices inside of the tensor").into());
        } else {
            buffers.get_scratch::<f32>(0, t5 as usize)?
        };
        Ok(((t6 * 0.5_f32) * gate) * (1.0_f32 + erf_f32(gate / 2.0_f32.sqrt())))
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
