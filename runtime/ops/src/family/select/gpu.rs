//! GPU kernels of `ArgMax`, `ArgMin` and `TopK`: a work item searches one lane, the elements along an axis.

use std::marker::PhantomData;

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, TypeSet, WorkItemFn, input, output, output_like, types,
};

use super::Extreme;
use super::rank::Ranked;
use crate::family::axes::AxisSplit;
use crate::family::gpu::{ELEMENTS, REAL, check_lens, elements, ints};

/// The types that the GPU compares.
const TYPES: TypeSet = REAL.or(types::INDEX);

/// Evaluates the arm with `$T` bound to each type of [`TYPES`].
macro_rules! of_ranked {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!(
            $dtype,
            [F32 = f32, F16 = udo_api::F16, I32 = i32, I64 = i64],
            $T => $body
        )
    };
}

/// The body of a work item, per element type.
type Item<K> = fn(&K, usize, &Buffers<'_>) -> Result<(), ExecError>;

/// Returns the first element of lane `i`, and its stride.
fn lane(split: AxisSplit, i: usize) -> (usize, usize) {
    let AxisSplit { len, inner, .. } = split;
    (i / inner * inner * len + i % inner, inner)
}

/// Kernel of [`Extreme`].
pub(super) struct ExtremeGpu<E> {
    split: AxisSplit,
    /// Whether the last of equal elements is selected.
    is_last: bool,
    options: String,
    item: Item<Self>,
    marker: PhantomData<fn() -> E>,
}

impl<E: Extreme> ExtremeGpu<E> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, TYPES), output(0, types::I64)];
        KernelDef::gpu::<Self>(E::NAME).ports(RULES)
    };

    fn item<T: Ranked>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let ((first, step), len) = (lane(self.split, i), self.split.len);
        let position = |nth: usize| if self.is_last { len - 1 - nth } else { nth };
        let mut best_position = position(0);
        let mut best = buffers.get::<T>(0, first + best_position * step)?;
        for position in (1..len).map(position) {
            let x = buffers.get::<T>(0, first + position * step)?;
            if E::wins(x, best) {
                (best, best_position) = (x, position);
            }
        }
        buffers.set(0, i, best_position as i64)
    }
}

impl<E: Extreme> GpuKernel for ExtremeGpu<E> {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let x = cx.input(0)?;
        let axis = cx.axis("axis", x.rank())?;
        let split = AxisSplit::at(x.shape(), axis);
        if split.len == 0 && !cx.output(0)?.is_empty() {
            return Err(Error::new(format!("input 0 is {x}, expected elements along axis {axis}")));
        }
        let item = of_ranked!(x.dtype(), T => Self::item::<T> as Item<Self>)?;
        let (is_last, options) = (cx.flag("select_last_index")?, elements(x.dtype()));
        Ok(Self { split, is_last, options, item, marker: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let text = format!(
            "{ELEMENTS}__kernel void udo_extreme(__global const ELEMENT *xs, __global long *ys,\n    \
             const int len, const int inner, const int is_last) {{\n    \
             const int i = get_global_id(0), first = i / inner * inner * len + i % inner;\n    \
             int found = is_last ? len - 1 : 0;\n    NUMBER best = LOAD(xs, first + found * inner);\n    \
             for (int nth = 1; nth < len; ++nth) {{\n        \
             const int at = is_last ? len - 1 - nth : nth;\n        \
             const NUMBER x = LOAD(xs, first + at * inner);\n        \
             if (({}) || (x != x && best == best)) {{ best = x; found = at; }}\n    }}\n    \
             ys[i] = found;\n}}\n",
            E::OPENCL
        );
        let launch = Launch::new(text, "udo_extreme").options(self.options.clone());
        let launch = launch.args([GpuArg::input(0), GpuArg::output(0)]);
        let launch = launch.args(ints([len, inner, usize::from(self.is_last)])?);
        info.push_launch(launch.global_size([outer * inner, 1, 1]));
        Ok(())
    }
}

/// Selects the best elements of each lane in order: each is the best one after the previous.
pub(crate) struct TopGpu {
    split: AxisSplit,
    /// Number of selected elements.
    k: usize,
    is_greatest: bool,
    options: String,
    item: Item<Self>,
}

/// Kernel source of [`TopGpu`]: selects `k` times the best element that comes after the last selected one.
const TOP: &str = "
bool udo_before(const NUMBER a, const NUMBER b, const int is_greatest) {
    if (is_greatest) return a > b || (a != a && b == b);
    return a < b || (b != b && a == a);
}

__kernel void udo_top(__global const ELEMENT *xs, __global ELEMENT *values, __global long *indices,
    const int len, const int inner, const int k, const int is_greatest) {
    const int i = get_global_id(0), first = i / inner * inner * len + i % inner;
    const int to = i / inner * inner * k + i % inner;
    NUMBER last = 0;
    int last_at = -1;
    for (int n = 0; n < k; ++n) {
        NUMBER best = 0;
        int found = -1;
        for (int at = 0; at < len; ++at) {
            const NUMBER x = LOAD(xs, first + at * inner);
            const bool is_behind = udo_before(last, x, is_greatest)
                || (!udo_before(x, last, is_greatest) && at > last_at);
            if (last_at >= 0 && !is_behind) continue;
            if (found < 0 || udo_before(x, best, is_greatest)) { best = x; found = at; }
        }
        STORE(values, to + n * inner, best);
        indices[to + n * inner] = found;
        last = best;
        last_at = found;
    }
}
";

impl TopGpu {
    /// Returns the kernel of the operator `name`.
    pub(crate) const fn def(name: &'static str) -> KernelDef {
        const RULES: &[PortRule] =
            &[input(0, TYPES), input(1, types::I64), output_like(0, 0), output(1, types::I64)];
        KernelDef::gpu::<Self>(name).ports(RULES)
    }

    fn item<T: Ranked>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let ((first, step), AxisSplit { len, inner, .. }) = (lane(self.split, i), self.split);
        let output = i / inner * inner * self.k + i % inner;
        // Complemented ranks sort the greatest element first.
        let flip = if self.is_greatest { T::MOST } else { 0 };
        let mut last = None;
        for n in 0..self.k {
            let mut best = None;
            for position in 0..len {
                let rank = buffers.get::<T>(0, first + position * step)?.rank() ^ flip;
                let ranked = Some((rank, position));
                if ranked > last && (best.is_none() || ranked < best) {
                    best = ranked;
                }
            }
            let position = best.map_or(0, |(_, position)| position);
            buffers.set(0, output + n * inner, buffers.get::<T>(0, first + position * step)?)?;
            buffers.set(1, output + n * inner, position as i64)?;
            last = best;
        }
        Ok(())
    }
}

impl GpuKernel for TopGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        let axis = cx.axis("axis", x.rank())?;
        let item = of_ranked!(x.dtype(), T => Self::item::<T> as Item<Self>)?;
        Ok(Self {
            split: AxisSplit::at(x.shape(), axis),
            k: y.shape().get(axis).copied().unwrap_or(1),
            is_greatest: cx.flag("largest")?,
            options: elements(x.dtype()),
            item,
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let launch = Launch::new(format!("{ELEMENTS}{TOP}"), "udo_top");
        let launch = launch.options(self.options.clone());
        let launch = launch.args([GpuArg::input(0), GpuArg::output(0), GpuArg::output(1)]);
        let launch = launch.args(ints([len, inner, self.k, usize::from(self.is_greatest)])?);
        info.push_launch(launch.global_size([outer * inner, 1, 1]));
        Ok(())
    }
}
