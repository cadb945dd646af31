//! Normalization on the GPU, one lane or row per work item.

use std::marker::PhantomData;

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, WorkItem, WorkItemFn, input, input_like, output_like, types,
};

use super::lanes::{LaneNorm, split};
use super::{GroupNorm, RowNorm};
use crate::family::axes::AxisSplit;
use crate::family::gpu::{EXACT, REAL, check_lens, ints};
use crate::family::source::Source;

/// A function of lanes with a GPU kernel. It computes each output from `x`, the maximum `most` of the lane, and the
/// `sum` of `exp(x - most)` over the lane.
pub(crate) trait LaneGpu: LaneNorm {
    /// An OpenCL expression of the floats `x`, `most` and `sum`.
    const OPENCL: &'static str;

    /// The function in Rust.
    fn normalize(x: f32, most: f32, sum: f32) -> f32;
}

/// Returns the GPU kernel of the operator `N`.
pub(crate) const fn lane_gpu<N: LaneGpu>() -> KernelDef {
    const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
    KernelDef::gpu::<LanesGpu<N>>(N::NAME).ports(RULES)
}

/// GPU kernel of the function `N`.
struct LanesGpu<N> {
    split: AxisSplit,
    marker: PhantomData<fn() -> N>,
}

impl<N: LaneGpu> LanesGpu<N> {
    const SOURCE: Source = Source::concat(&[
        EXACT,
        "__kernel void udo_lane(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n",
        "                       const int len, const int inner) {\n",
        "    const int i = get_global_id(0), first = i / inner * inner * len + i % inner;\n",
        "    float most = -INFINITY, sum = 0.0f;\n",
        "    for (int k = 0; k < len; ++k) most = fmax(most, UDO_LOAD(xs, first + k * inner));\n",
        "    for (int k = 0; k < len; ++k) sum += exp(UDO_LOAD(xs, first + k * inner) - most);\n",
        "    for (int k = 0; k < len; ++k) {\n",
        "        const float x = UDO_LOAD(xs, first + k * inner);\n",
        "        UDO_STORE(ys, first + k * inner, ",
        N::OPENCL,
        ");\n    }\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();
}

impl<N: LaneGpu> GpuKernel for LanesGpu<N> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let ([i, ..], AxisSplit { len, inner, .. }) = (item.global_id, kernel.split);
        let first = i / inner * inner * len + i % inner;
        let x = |k: usize| buffers.load(0, first + k * inner);
        let most = (0..len).try_fold(f32::NEG_INFINITY, |most, k| Ok(most.max(x(k)?)))?;
        let sum = (0..len).try_fold(0.0, |sum, k| Ok(sum + (x(k)? - most).exp()))?;
        (0..len)
            .try_for_each(|k| buffers.store(0, first + k * inner, N::normalize(x(k)?, most, sum)))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        Ok(Self { split: split(cx)?, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let launch = Launch::new(Self::TEXT, "udo_lane");
        let launch = launch.args([GpuArg::input(0), GpuArg::output(0)]).args(ints([len, inner])?);
        info.push_launch(launch.global_size([outer * inner, 1, 1]));
        Ok(())
    }
}

/// Returns the GPU kernel of the operator `N`, with a bias if it may have one.
pub(super) const fn row_gpu<N: RowNorm>() -> KernelDef {
    KernelDef::gpu::<RowsGpu<N>>(N::NAME).ports(RULES.split_at(1 + N::INPUTS.len()).0)
}

/// Returns the GPU kernel of the operator `N`.
pub(super) const fn group_gpu<N: GroupNorm>() -> KernelDef {
    KernelDef::gpu::<GroupsGpu<N>>(N::NAME).ports(RULES)
}

const RULES: &[PortRule] =
    &[input(0, types::F32), output_like(0, 0), input_like(1, 0), input_like(2, 0)];

/// Kernel source of row and group norms. It subtracts the row's first element, then the mean of the differences, before
/// it sums squares, so a mean that is large compared to the deviation costs no precision. Sums of 64 elements are
/// summed up in turn, which loses less precision than one long sum.
const SOURCE: &str = "#pragma OPENCL FP_CONTRACT OFF
__kernel void udo_row(__global const float *xs, __global const float *scale, __global const float *bias,
    __global float *ys, const int len, const int plane, const int channels, const int is_centred,
    const int has_bias, const float epsilon) {
    const int first = get_global_id(0) * len;
    const float shift = is_centred && len > 0 ? xs[first] : 0.0f;
    float mean = 0.0f, squares = 0.0f;
    for (int part = 0; is_centred && part < len; part += 64) {
        float sum = 0.0f;
        for (int k = part; k < min(part + 64, len); ++k) sum += xs[first + k] - shift;
        mean += sum;
    }
    mean /= len;
    for (int part = 0; part < len; part += 64) {
        float sum = 0.0f;
        for (int k = part; k < min(part + 64, len); ++k) {
            const float x = (xs[first + k] - shift) - mean;
            sum += x * x;
        }
        squares += sum;
    }
    const float inverse = 1.0f / sqrt(squares / len + epsilon);
    for (int k = 0; k < len; ++k) {
        const int channel = (first + k) / plane % channels;
        const float y = ((xs[first + k] - shift) - mean) * inverse * scale[channel];
        ys[first + k] = has_bias ? y + bias[channel] : y;
    }
}
";

/// Normalizes rows of consecutive elements, then applies a scale and bias per plane.
struct Normalized {
    /// Number of rows.
    rows: usize,
    /// Elements of a row.
    row: usize,
    /// Elements of a plane.
    plane: usize,
    /// Number of scales.
    channels: usize,
    /// Whether the mean is subtracted.
    is_centred: bool,
    has_bias: bool,
    epsilon: f32,
}

impl Normalized {
    fn item(&self, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let &Self { row, plane, channels, epsilon, .. } = self;
        let first = item.global_id[0] * row;
        let x = &buffers.input::<f32>(0)?[first..][..row];
        let scale = buffers.input::<f32>(1)?;
        let bias = if self.has_bias { buffers.input::<f32>(2)? } else { &[] };
        let len = row as f32;
        let sum = |term: &dyn Fn(f32) -> f32| -> f32 {
            x.chunks(64).map(|part| part.iter().map(|&x| term(x)).sum::<f32>()).sum()
        };
        let shift = x.first().filter(|_| self.is_centred).copied().unwrap_or(0.0);
        let mean = if self.is_centred { sum(&|x| x - shift) / len } else { 0.0 };
        let squares = sum(&|x| {
            let x = (x - shift) - mean;
            x * x
        });
        let inverse = 1.0 / (squares / len + epsilon).sqrt();
        for (at, x) in (first..).zip(x) {
            let channel = at / plane % channels;
            let y = ((x - shift) - mean) * inverse * scale[channel];
            buffers.store(0, at, bias.get(channel).map_or(y, |bias| y + bias))?;
        }
        Ok(())
    }

    fn launch(&self) -> Result<Launch, Error> {
        let &Self { rows, row, plane, channels, is_centred, has_bias, epsilon } = self;
        let bias = GpuArg::input(if has_bias { 2 } else { 0 });
        let flags = [is_centred, has_bias].map(usize::from);
        let launch = Launch::new(SOURCE, "udo_row")
            .args([GpuArg::input(0), GpuArg::input(1), bias, GpuArg::output(0)])
            .args(ints([row, plane, channels].into_iter().chain(flags))?)
            .args([GpuArg::f32(epsilon)]);
        Ok(launch.global_size([rows, 1, 1]))
    }
}

struct RowsGpu<N>(Normalized, PhantomData<fn() -> N>);

impl<N: RowNorm> GpuKernel for RowsGpu<N> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| kernel.0.item(item, buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        if let Some(port) = (1..cx.output_count()).find(|&port| cx.has_output(port)) {
            return Err(Error::new(format!(
                "output {port}, a statistic of the rows, is expected, which the GPU does not write"
            )));
        }
        let x = cx.input(0)?;
        let (outer, inner) = x.shape().split_at(cx.axis("axis", x.rank())?);
        let row = inner.iter().product();
        let rows = Normalized {
            rows: outer.iter().product(),
            row,
            plane: 1,
            channels: row,
            is_centred: N::IS_CENTRED,
            has_bias: cx.has_input(2),
            epsilon: cx.float32("epsilon")?,
        };
        Ok(Self(rows, PhantomData))
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.0.launch()?);
        Ok(())
    }
}

struct GroupsGpu<N>(Normalized, PhantomData<fn() -> N>);

impl<N: GroupNorm> GpuKernel for GroupsGpu<N> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| kernel.0.item(item, buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let x = cx.input(0)?;
        let AxisSplit { outer, len: channels, inner: plane } = AxisSplit::at(x.shape(), 1);
        let groups = N::groups(cx, channels)?.max(1);
        let rows = Normalized {
            rows: outer * groups,
            row: channels / groups * plane,
            plane,
            channels,
            is_centred: true,
            has_bias: true,
            epsilon: cx.float32("epsilon")?,
        };
        Ok(Self(rows, PhantomData))
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.0.launch()?);
        Ok(())
    }
}
