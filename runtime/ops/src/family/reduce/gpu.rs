//! Reductions along neighbouring axes on the GPU, a work item for each result.

use std::marker::PhantomData;

use udo_api::{
    Error, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch, PortRule, WorkItemFn,
    input, output_like, types,
};

use super::accumulate::Accumulate;
use super::{Reduce, ReducedAxes};
use crate::family::axes::AxisSplit;
use crate::family::source::Source;

pub(super) struct ReduceGpu<R> {
    split: AxisSplit,
    of: PhantomData<fn() -> R>,
}

impl<R: Reduce> ReduceGpu<R> {
    const SOURCE: Source = Source::of(&[
        "__kernel void udo_reduce(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n",
        "                         const uint len, const uint inner) {\n",
        "    const size_t i = get_global_id(0), first = i / inner * inner * len + i % inner;\n",
        "    const float count = len;\n",
        "    float y = ",
        R::By::OPENCL[0],
        ";\n    for (uint k = 0; k < len; ++k) {\n",
        "        const float x = UDO_LOAD(xs, first + k * inner);\n",
        "        y = ",
        R::By::OPENCL[1],
        ";\n    }\n    UDO_STORE(ys, i, ",
        R::OPENCL_END,
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, types::F32.or(types::F16)), output_like(0, 0)];
        KernelDef::gpu::<Self>(R::NAME).ports(RULES)
    };
}

impl<R: Reduce> GpuKernel for ReduceGpu<R> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let ([i, ..], AxisSplit { len, inner, .. }) = (item.global_id, kernel.split);
        let first = i / inner * inner * len + i % inner;
        let mut y = R::By::none::<f32>();
        for k in 0..len {
            y = R::By::take(y, buffers.load(0, first + k * inner)?);
        }
        buffers.store(0, i, R::end(y, len))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let split = ReducedAxes::of(cx)?.plan(cx.input(0)?.shape()).axis_split();
        let split = split.ok_or_else(|| Error::new("the axes are apart, wanted neighbours"))?;
        Ok(Self { split, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let extent = |extent: usize| match u32::try_from(extent) {
            Ok(extent) => Ok(GpuArg::u32(extent)),
            Err(_) => Err(Error::new("an extent has more than 32 bits")),
        };
        let args = [GpuArg::input(0), GpuArg::output(0), extent(len)?, extent(inner)?];
        let launch = Launch::new(Self::TEXT, "udo_reduce").args(args);
        info.push_launch(launch.global_size([outer * inner, 1, 1]));
        Ok(())
    }
}
