//! Reductions along neighbouring axes on the GPU, a work item for each result.

use std::marker::PhantomData;

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, output_like,
};

use super::accumulate::Accumulate;
use super::{Reduce, ReducedAxes};
use crate::family::axes::AxisSplit;
use crate::family::gpu::{EXACT, REAL, check_lens, ints};
use crate::family::source::Source;

pub(super) struct ReduceGpu<R>(ReducedLanes<R>);

impl<R: Reduce> ReduceGpu<R> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
        KernelDef::gpu::<Self>(R::NAME).ports(RULES)
    };
}

impl<R: Reduce> GpuKernel for ReduceGpu<R> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| kernel.0.item(item, buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let split = ReducedAxes::of(cx)?.plan(cx.input(0)?.shape()).axis_split();
        let split = split.ok_or_else(|| Error::new("the axes are apart, wanted neighbours"))?;
        ReducedLanes::of(cx, split).map(Self)
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.0.launch()?);
        Ok(())
    }
}

/// Elements along an axis of input 0, which become one of output 0 as `R` says.
pub(crate) struct ReducedLanes<R> {
    split: AxisSplit,
    of: PhantomData<fn() -> R>,
}

impl<R: Reduce> ReducedLanes<R> {
    const SOURCE: Source = Source::of(&[
        EXACT,
        "__kernel void udo_reduce(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n",
        "                         const int len, const int inner) {\n",
        "    const size_t i = get_global_id(0), first = i / inner * inner * len + i % inner;\n",
        "    const float count = len;\n",
        "    float y = ",
        R::By::OPENCL[0],
        ";\n    for (int k = 0; k < len; ++k) {\n",
        "        const float x = UDO_LOAD(xs, first + k * inner);\n",
        "        y = ",
        R::By::OPENCL[1],
        ";\n    }\n    UDO_STORE(ys, i, ",
        R::OPENCL_END,
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(crate) fn of(cx: &FinalizeCx<'_>, split: AxisSplit) -> Result<Self, Error> {
        check_lens(cx)?;
        Ok(Self { split, of: PhantomData })
    }

    /// Writes one result.
    pub(crate) fn item(&self, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let ([i, ..], AxisSplit { len, inner, .. }) = (item.global_id, self.split);
        let first = i / inner * inner * len + i % inner;
        let mut y = R::By::none::<f32>();
        for k in 0..len {
            y = R::By::take(y, buffers.load(0, first + k * inner)?);
        }
        buffers.store(0, i, R::end(y, len))
    }

    pub(crate) fn launch(&self) -> Result<Launch, Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let launch = Launch::new(Self::TEXT, "udo_reduce");
        let launch = launch.args([GpuArg::input(0), GpuArg::output(0)]).args(ints([len, inner])?);
        Ok(launch.global_size([outer * inner, 1, 1]))
    }
}
