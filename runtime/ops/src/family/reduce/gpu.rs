//! Reductions on the GPU, one work item per output element.

use std::fmt::Write as _;

use std::marker::PhantomData;

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, output_like,
};

use super::accumulate::Accumulate;
use super::{Reduce, ReducedAxes};
use crate::family::axes::{AxisSplit, strides};
use crate::family::gpu::{EXACT, REAL, Steps, StridedAccess, check_lens, int, ints};
use crate::family::source::Source;

/// GPU kernel of the reduction `R`.
pub(super) struct ReduceGpu<R>(AxisLayout<R>);

/// The position of the reduced axes.
enum AxisLayout<R> {
    /// All reduced axes are adjacent.
    Lanes(ReducedLanes<R>),
    /// Other axes lie between reduced axes.
    Boxes(ReducedBoxes<R>),
}

impl<R: Reduce> ReduceGpu<R> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
        KernelDef::gpu::<Self>(R::NAME).ports(RULES)
    };
}

impl<R: Reduce> GpuKernel for ReduceGpu<R> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| match &kernel.0 {
        AxisLayout::Lanes(lanes) => lanes.item(item, buffers),
        AxisLayout::Boxes(boxes) => boxes.item(item, buffers),
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (axes, x) = (ReducedAxes::read(cx)?, cx.input(0)?);
        Ok(Self(match axes.plan(x.shape()).axis_split() {
            Some(split) => AxisLayout::Lanes(ReducedLanes::new(cx, split)?),
            None => AxisLayout::Boxes(ReducedBoxes::new(cx, axes, x.shape())?),
        }))
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(match &self.0 {
            AxisLayout::Lanes(lanes) => lanes.launch()?,
            AxisLayout::Boxes(boxes) => boxes.launch()?,
        });
        Ok(())
    }
}

/// Reduces the elements along one axis of input 0 by `R`.
pub(crate) struct ReducedLanes<R> {
    split: AxisSplit,
    marker: PhantomData<fn() -> R>,
}

impl<R: Reduce> ReducedLanes<R> {
    const SOURCE: Source = Source::concat(&[
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

    pub(crate) fn new(cx: &FinalizeCx<'_>, split: AxisSplit) -> Result<Self, Error> {
        check_lens(cx)?;
        Ok(Self { split, marker: PhantomData })
    }

    /// Computes one output element.
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

/// Reduces axes that are not adjacent by `R`.
struct ReducedBoxes<R> {
    /// Positions of the first element of each output.
    kept: StridedAccess,
    /// Positions of the other elements relative to the first.
    reduced: StridedAccess,
    marker: PhantomData<fn() -> R>,
}

impl<R: Reduce> ReducedBoxes<R> {
    fn new(cx: &FinalizeCx<'_>, axes: ReducedAxes, dims: &[usize]) -> Result<Self, Error> {
        check_lens(cx)?;
        let access_along = |is_reduced: bool| {
            let all = dims.iter().zip(strides(dims)).enumerate();
            let own = all.filter(|(axis, _)| axes.has(*axis) == is_reduced);
            let (dims, along) = own
                .map(|(_, (&dim, stride))| (dim, stride.cast_signed()))
                .unzip::<_, _, Vec<_>, _>();
            StridedAccess::new(&dims, &[Steps { start: 0, along }])
        };
        Ok(Self { kept: access_along(false), reduced: access_along(true), marker: PhantomData })
    }

    fn item(&self, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let ([i, ..], count) = (item.global_id, self.reduced.len());
        let first = self.kept.place(0, i);
        let mut y = R::By::none::<f32>();
        for k in 0..count {
            y = R::By::take(y, buffers.load(0, first + self.reduced.place(0, k))?);
        }
        buffers.store(0, i, R::end(y, count))
    }

    fn launch(&self) -> Result<Launch, Error> {
        let (mut params, mut args) = (String::new(), Vec::new());
        // Statements that add the offset of position `rest` to `place`.
        let mut places = |name: &str, access_along: &StridedAccess| -> Result<String, Error> {
            let mut text = String::new();
            let (dims, mut along) = access_along.walk();
            let steps = dims.iter().zip(along.next().unwrap_or_default()).enumerate();
            for (axis, (&dim, &step)) in steps.rev() {
                let _ = write!(params, ", const int {name}{axis}, const int {name}_step{axis}");
                let _ = write!(
                    text,
                    " place += rest % {name}{axis} * {name}_step{axis}; rest /= {name}{axis};"
                );
                args.extend([int(dim.cast_signed())?, int(step)?]);
            }
            Ok(text)
        };
        let (kept, reduced) = (places("kept", &self.kept)?, places("reduced", &self.reduced)?);
        let [start, step] = R::By::OPENCL;
        let text = format!(
            "{EXACT}__kernel void udo_reduce(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n    \
             const int len{params}) {{\n    const int i = get_global_id(0);\n    \
             int rest = i, place = 0;\n   {kept}\n    const int first = place;\n    \
             const float count = len;\n    float y = {start};\n    for (int k = 0; k < len; ++k) {{\n        \
             rest = k; place = first;{reduced}\n        const float x = UDO_LOAD(xs, place);\n        \
             y = {step};\n    }}\n    UDO_STORE(ys, i, {});\n}}\n",
            R::OPENCL_END
        );
        let launch = Launch::new(text, "udo_reduce").args([GpuArg::input(0), GpuArg::output(0)]);
        let launch = launch.args(ints([self.reduced.len()])?).args(args);
        Ok(launch.global_size([self.kept.len(), 1, 1]))
    }
}
