//! Pooling on the GPU: one window per work item.

use udo_api::{
    Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch, PortRule,
    WorkItemFn, input, output_like,
};

use super::windows::{FoldWindow, fold_places, window};
use crate::family::gpu::{EXACT, REAL, check_lens, ints};
use crate::family::source::Source;
use crate::family::window::Window;

/// A pool with a GPU kernel.
pub(crate) trait PoolGpu: FoldWindow<f32> {
    /// OpenCL expressions: the initial value, the update of `y` by an element `x`, and the final step for `y` over
    /// `count` taps, the elements of a window.
    const OPENCL: [&'static str; 3];

    /// Whether taps in the padding count.
    fn counts_padding(&self) -> bool {
        false
    }
}

/// Returns the GPU kernel of the pool `P`.
pub(crate) const fn gpu<P: PoolGpu>() -> KernelDef {
    const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
    KernelDef::gpu::<WindowsGpu<P>>(P::NAME).ports(RULES)
}

struct WindowsGpu<P> {
    pool: P,
    window: Window,
    len: usize,
}

impl<P: PoolGpu> WindowsGpu<P> {
    const SOURCE: Source = Source::concat(&[
        EXACT,
        "__kernel void udo_pool(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n",
        "    const int counts_padding, const int x0, const int x1, const int x2,\n",
        "    const int y0, const int y1, const int y2, const int k0, const int k1, const int k2,\n",
        "    const int s0, const int s1, const int s2, const int d0, const int d1, const int d2,\n",
        "    const int p0, const int p1, const int p2, const int e0, const int e1, const int e2) {\n",
        "    const int i = get_global_id(0), plane = i / (y0 * y1 * y2) * (x0 * x1 * x2);\n",
        "    const int z = i / (y1 * y2) % y0 * s0 - p0, r = i / y2 % y1 * s1 - p1, c = i % y2 * s2 - p2;\n",
        "    int count = 0;\n    float y = ",
        P::OPENCL[0],
        ";\n    for (int a = z; a < z + k0 * d0; a += d0)\n",
        "    for (int b = r; b < r + k1 * d1; b += d1)\n",
        "    for (int d = c; d < c + k2 * d2; d += d2) {\n",
        "        const bool is_inside = a >= 0 && a < x0 && b >= 0 && b < x1 && d >= 0 && d < x2;\n",
        "        const bool is_padded = a < x0 + e0 && b < x1 + e1 && d < x2 + e2;\n",
        "        count += is_inside || (counts_padding && is_padded);\n",
        "        if (!is_inside) continue;\n",
        "        const float x = UDO_LOAD(xs, plane + (a * x1 + b) * x2 + d);\n        y = ",
        P::OPENCL[1],
        ";\n    }\n    count = max(count, 1);\n    UDO_STORE(ys, i, ",
        P::OPENCL[2],
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();
}

impl<P: PoolGpu> GpuKernel for WindowsGpu<P> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let ([index, ..], Self { pool, window, .. }) = (item.global_id, kernel);
        let [depth, rows, cols] = window.output;
        let coordinates = [index / (rows * cols) % depth, index / cols % rows, index % cols];
        let taps = [
            window.taps(0, coordinates[0]),
            window.taps(1, coordinates[1]),
            window.taps(2, coordinates[2]),
        ];
        let plane = index / window.output_len() * window.input_len();
        let y = fold_places(window, taps, Ok(P::START), |y: Result<_, ExecError>, place| {
            Ok(pool.fold(y?, pool.take(buffers.load(0, plane + place)?)))
        })?;
        buffers.store(0, index, pool.finish(window, y, taps, coordinates))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        if (1..cx.output_count()).any(|port| cx.has_output(port)) {
            return Err(Error::new("output 1, the indices, is not supported on the GPU"));
        }
        let window = window(cx, &cx.input(0)?)?;
        Ok(Self { pool: P::read(cx, &window)?, window, len: cx.output(0)?.len() })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let Window { input, output, kernel, strides, dilations, pads, end_pads } = self.window;
        // The largest coordinate that a tap of the last window reaches.
        let reach = (0..3).map(|axis| {
            let last = output[axis].saturating_mul(strides[axis]);
            last.saturating_add(kernel[axis].saturating_mul(dilations[axis]))
        });
        ints(reach.chain((0..3).map(|axis| input[axis].saturating_add(end_pads[axis]))))?;
        let sizes = [input, output, kernel, strides, dilations, pads, end_pads];
        let launch = Launch::new(Self::TEXT, "udo_pool")
            .args([GpuArg::input(0), GpuArg::output(0)])
            .args(ints([usize::from(self.pool.counts_padding())])?)
            .args(ints(sizes.into_iter().flatten())?);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}
