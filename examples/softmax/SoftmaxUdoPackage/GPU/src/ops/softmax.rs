//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 838c9ccdbf23d184
//!
//! Softmax on the GPU, along the last axis: one work item computes one row.

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, output_like, types,
};

pub(crate) const KERNEL: KernelDef = KernelDef::gpu::<SoftmaxGpu>("Softmax").ports(PORTS);

const PORTS: &[PortRule] = &[input(0, types::F32.or(types::F16)), output_like(0, 0)];

const SOURCE: &str = include_str!("../../kernels/softmax.cl");

const KERNEL_NAME: &str = "softmax_kernel";

struct SoftmaxGpu {
    rows: usize,
    cols: u32,
}

impl GpuKernel for SoftmaxGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(work_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        match *x.shape() {
            [.., cols] if cols > 0 => {
                let wide = |_| Error::new(format!("softmax over {cols} elements is too wide"));
                Ok(Self {
                    rows: x.len() / cols,
                    cols: u32::try_from(cols).map_err(wide)?,
                })
            }
            _ => Err(Error::new(
                "softmax wants a last axis with at least one element",
            )),
        }
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let args = [GpuArg::input(0), GpuArg::output(0), GpuArg::u32(self.cols)];
        let launch = Launch::new(SOURCE, KERNEL_NAME).args(args);
        info.push_launch(launch.global_size([self.rows, 1, 1]));
        Ok(())
    }
}

/// The kernel in `kernels/softmax.cl`, for the emulated GPU.
fn work_item(kernel: &SoftmaxGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let cols = kernel.cols as usize;
    let row = item.global_id[0] * cols..(item.global_id[0] + 1) * cols;
    let mut max = f32::NEG_INFINITY;
    for i in row.clone() {
        max = max.max(buffers.load(0, i)?);
    }
    let mut sum = 0.0;
    for i in row.clone() {
        sum += (buffers.load(0, i)? - max).exp();
    }
    for i in row {
        buffers.store(0, i, (buffers.load(0, i)? - max).exp() / sum)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn rows_become_shares_however_large_their_numbers_are() {
        let x = [1f32, 2.0, 3.0, 4.0, 1e30, 1e30, 1e30, 1e30];
        let bench = Bench::kernel(KERNEL)
            .input(tensor(&[2, 4], &x))
            .like_input();
        let wanted = [
            0.0320586, 0.0871443, 0.2368828, 0.6439143, 0.25, 0.25, 0.25, 0.25,
        ];
        assert_near(&bench.one().values::<f32>(), &wanted, 1e-6);
    }
}
