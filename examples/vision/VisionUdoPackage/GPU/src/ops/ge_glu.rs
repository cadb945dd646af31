//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 6d32dc943cef2c7f
//!
//! GeGlu on the GPU: how it is launched, and one work item of it in Rust.

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, input_like, output_like, types,
};
use vision_udo_package_common::gelu;

pub(crate) const KERNEL: KernelDef = KernelDef::gpu::<GeGluGpu>("GeGlu").ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32.or(types::F16)),
    input_like(1, 0),
    output_like(0, 0),
];

const SOURCE: &str = include_str!("../../kernels/ge_glu.cl");

const KERNEL_NAME: &str = "ge_glu_kernel";

struct GeGluGpu {
    elements: usize,
    half: u32,
    has_input_1: bool,
}

impl GpuKernel for GeGluGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(work_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let elements = cx.output(0)?.len();
        Ok(Self {
            elements,
            half: half_width(cx)?,
            has_input_1: cx.has_input(1),
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let mut launch = Launch::new(SOURCE, KERNEL_NAME);
        launch.args.push(GpuArg::input(0));
        if self.has_input_1 {
            launch.options.to_mut().push_str(" -DHAS_INPUT_1");
            launch.args.push(GpuArg::input(1));
        }
        launch
            .args
            .extend([GpuArg::output(0), GpuArg::u32(self.half)]);
        info.push_launch(launch.global_size([self.elements, 1, 1]));
        Ok(())
    }
}

/// Half of the last axis.
fn half_width(cx: &FinalizeCx<'_>) -> Result<u32, Error> {
    let half = cx.output(0)?.shape().last().copied().unwrap_or_default();
    u32::try_from(half).map_err(|_| Error::new(format!("a row of {half} numbers is too wide")))
}

/// The kernel in `kernels/ge_glu.cl`, for the emulated GPU.
fn work_item(kernel: &GeGluGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let (i, half) = (item.global_id[0], kernel.half as usize);
    let (row, column) = (i / half * 2 * half, i % half);
    let load = |at: usize| {
        let bias = if kernel.has_input_1 {
            buffers.load(1, at)?
        } else {
            0.0
        };
        Ok::<f32, ExecError>(buffers.load(0, row + at)? + bias)
    };
    buffers.store(0, i, load(column)? * gelu(load(column + half)?))
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn one_half_is_gated_by_the_other() {
        let bench = Bench::kernel(KERNEL)
            .input(tensor(&[1, 4], &[2f32, 3.0, 0.5, -1.0]))
            .input(tensor(&[4], &[0f32, -2.0, 0.5, 1.0]))
            .output_of::<f32>(&[1, 2]);
        assert_near(&bench.one().values::<f32>(), &[1.6826895, 0.0], 1e-6);
    }
}
