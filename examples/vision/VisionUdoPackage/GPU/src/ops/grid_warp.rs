//! auto-generated once by `udo new`: yours to edit, never overwritten.
//! config 0ab7984a0153f910
//!
//! GridWarp on the GPU: how it is launched, and one work item of it in Rust.

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, input_like, output_like, types,
};

use crate::params::grid_warp::Params;

pub(crate) const KERNEL: KernelDef = KernelDef::gpu::<GridWarpGpu>("GridWarp").ports(PORTS);

const PORTS: &[PortRule] = &[
    input(0, types::F32.or(types::F16)),
    input_like(1, 0),
    output_like(0, 0),
];

const SOURCE: &str = include_str!("../../kernels/grid_warp.cl");

const KERNEL_NAME: &str = "grid_warp_kernel";

struct GridWarpGpu {
    pixels: usize,
    /// Pixels of an image of the grid; height, width and channels of one of the input.
    sizes: [u32; 4],
    is_border: bool,
    fill: f32,
}

impl GpuKernel for GridWarpGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(work_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let params = Params::read(cx)?;
        let (&[_, height, width, channels], &[n, rows, columns, _]) =
            (cx.input(0)?.shape(), cx.input(1)?.shape())
        else {
            return Err(Error::new("wanted an image and a grid of rank 4"));
        };
        let sizes = [rows * columns, height, width, channels];
        Ok(Self {
            pixels: n * rows * columns,
            sizes: sizes.map(|size| u32::try_from(size).unwrap_or(u32::MAX)),
            is_border: &*params.outside == "border",
            fill: params.fill.first().copied().unwrap_or_default(),
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let mut launch = Launch::new(SOURCE, KERNEL_NAME);
        launch.args.push(GpuArg::input(0));
        launch.args.push(GpuArg::input(1));
        launch.args.push(GpuArg::output(0));
        launch.args.extend(self.sizes.map(GpuArg::u32));
        launch.args.push(GpuArg::u32(u32::from(self.is_border)));
        launch.args.push(GpuArg::f32(self.fill));
        info.push_launch(launch.global_size([self.pixels, 1, 1]));
        Ok(())
    }
}

/// The kernel in `kernels/grid_warp.cl`, for the emulated GPU.
fn work_item(kernel: &GridWarpGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let pixel = item.global_id[0];
    let [per_image, height, width, channels] = kernel.sizes.map(|size| size as usize);
    let place = |axis: usize, size: usize| {
        let at = ((buffers.load(1, 2 * pixel + axis)? + 1.0) * size as f32 - 1.0) / 2.0;
        let last = size as f32 - 1.0;
        Ok::<f32, ExecError>(match at {
            at if kernel.is_border && at < 0.0 => 0.0,
            at if kernel.is_border && at > last => last,
            at => at,
        })
    };
    let (x, y) = (place(0, width)?, place(1, height)?);
    for c in 0..channels {
        let mut sum = 0.0;
        for corner in [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] {
            let (u, v) = (x.floor() + corner[0], y.floor() + corner[1]);
            let is_inside = u >= 0.0 && u < width as f32 && v >= 0.0 && v < height as f32;
            let found = if is_inside {
                let at = (pixel / per_image * height + v as usize) * width + u as usize;
                buffers.load(0, at * channels + c)?
            } else {
                kernel.fill
            };
            sum += (1.0 - (x - u).abs()) * (1.0 - (y - v).abs()) * found;
        }
        buffers.store(0, pixel * channels + c, sum)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_testing::{Bench, assert_near, tensor};

    use super::KERNEL;

    #[test]
    fn pixels_are_between_their_neighbours_and_what_is_outside() {
        for (outside, wanted) in [("fill", [1.0, 2.5, 4.75]), ("border", [1.0, 2.5, 4.0])] {
            let bench = Bench::kernel(KERNEL)
                .input(tensor(&[1, 2, 2, 1], &[1f32, 2.0, 3.0, 4.0]))
                .input(tensor(&[1, 1, 3, 2], &[-0.5f32, -0.5, 0.0, 0.0, 0.5, 0.75]))
                .text("outside", outside)
                .floats("fill", &[7.0])
                .output_of::<f32>(&[1, 1, 3, 1]);
            assert_near(&bench.one().values::<f32>(), &wanted, 1e-6);
        }
    }
}
