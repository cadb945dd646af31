//! Functions of elements on the GPU, one element per work item.

use std::marker::PhantomData;

use udo_api::{
    Bool, Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, Launch,
    PortRule, TypeSet, WorkItem, WorkItemFn, input, input_like, output, output_like, types,
};

use super::unary::in_f64;
use super::{Binary, Compare, Ternary, Unary};
use crate::family::source::Source;

const REAL: TypeSet = types::F32.or(types::F16);

/// The function `U` of each element.
pub(super) struct UnaryGpu<U> {
    len: usize,
    params: [f32; 2],
    of: PhantomData<fn() -> U>,
}

impl<U: Unary> UnaryGpu<U> {
    const SOURCE: Source = Source::of(&[
        "__kernel void udo_unary(__global const UDO_STORAGE *xs, __global UDO_STORAGE *ys,\n",
        "                        const float p, const float q) {\n",
        "    const size_t i = get_global_id(0);\n",
        "    const float x = UDO_LOAD(xs, i);\n",
        "    UDO_STORE(ys, i, ",
        U::OPENCL,
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), output_like(0, 0)];
        KernelDef::gpu::<Self>(U::NAME).ports(RULES)
    };
}

impl<U: Unary> GpuKernel for UnaryGpu<U> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        buffers.store(0, i, in_f64::<U>(buffers.load(0, i)?, kernel.params))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { len: cx.output(0)?.len(), params: U::params(cx)?, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let launch =
            Launch::new(Self::TEXT, "udo_unary").args([GpuArg::input(0), GpuArg::output(0)]);
        let launch = launch.args(self.params.map(GpuArg::f32));
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

/// The function `B` of two operands of one shape, or one of them with one element.
pub(super) struct BinaryGpu<B> {
    pairs: Operands<2>,
    of: PhantomData<fn() -> B>,
}

impl<B: Binary> BinaryGpu<B> {
    const SOURCE: Source = Source::of(&[
        "__kernel void udo_binary(__global const UDO_STORAGE *as, __global const UDO_STORAGE *bs,\n",
        "                         __global UDO_STORAGE *ys, const uint a_step, const uint b_step) {\n",
        "    const size_t i = get_global_id(0);\n",
        "    const float a = UDO_LOAD(as, i * a_step), b = UDO_LOAD(bs, i * b_step);\n",
        "    UDO_STORE(ys, i, ",
        match B::OPENCL {
            Some(expression) => expression,
            None => "",
        },
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), input_like(1, 0), output_like(0, 0)];
        KernelDef::gpu::<Self>(B::NAME).ports(RULES)
    };
}

impl<B: Binary> GpuKernel for BinaryGpu<B> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let (a, b) = kernel.pairs.load(item, buffers)?;
        buffers.store(0, item.global_id[0], B::F64(a.into(), b.into()) as f32)
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { pairs: Operands::of(cx)?, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.pairs.launch(Self::TEXT, "udo_binary"));
        Ok(())
    }
}

/// The comparison `C` of two operands of one shape, or one of them with one element.
pub(super) struct CompareGpu<C> {
    pairs: Operands<2>,
    of: PhantomData<fn() -> C>,
}

impl<C: Compare> CompareGpu<C> {
    const SOURCE: Source = Source::of(&[
        "__kernel void udo_compare(__global const UDO_STORAGE *as, __global const UDO_STORAGE *bs,\n",
        "                          __global uchar *ys, const uint a_step, const uint b_step) {\n",
        "    const size_t i = get_global_id(0);\n",
        "    const float a = UDO_LOAD(as, i * a_step), b = UDO_LOAD(bs, i * b_step);\n",
        "    ys[i] = (",
        C::OPENCL,
        ") ? 1 : 0;\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] = &[input(0, REAL), input_like(1, 0), output(0, types::BOOL)];
        KernelDef::gpu::<Self>(C::NAME).ports(RULES)
    };
}

impl<C: Compare> GpuKernel for CompareGpu<C> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let (a, b) = kernel.pairs.load(item, buffers)?;
        buffers.set(0, item.global_id[0], Bool::from(C::of(a, b)))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { pairs: Operands::of(cx)?, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.pairs.launch(Self::TEXT, "udo_compare"));
        Ok(())
    }
}

/// One of two elements, by the truth in the first operand; each has one shape, or one element.
pub(super) struct TernaryGpu<F> {
    operands: Operands<3>,
    of: PhantomData<fn() -> F>,
}

impl<F: Ternary> TernaryGpu<F> {
    const SOURCE: Source = Source::of(&[
        "__kernel void udo_ternary(__global const uchar *cs, __global const UDO_STORAGE *as,\n",
        "                          __global const UDO_STORAGE *bs, __global UDO_STORAGE *ys,\n",
        "                          const uint c_step, const uint a_step, const uint b_step) {\n",
        "    const size_t i = get_global_id(0);\n",
        "    const bool c = cs[i * c_step] != 0;\n",
        "    const float a = UDO_LOAD(as, i * a_step), b = UDO_LOAD(bs, i * b_step);\n",
        "    UDO_STORE(ys, i, ",
        F::OPENCL,
        ");\n}\n",
    ]);
    const TEXT: &'static str = Self::SOURCE.text();

    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, types::BOOL), input(1, REAL), input_like(2, 1), output_like(0, 1)];
        KernelDef::gpu::<Self>(F::NAME).ports(RULES)
    };
}

impl<F: Ternary> GpuKernel for TernaryGpu<F> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        let [c, a, b] = kernel.operands.steps.map(|step| i * usize::from(step));
        let truth = buffers.get::<Bool>(0, c)?.get();
        buffers.store(0, i, F::of(truth, buffers.load(1, a)?, buffers.load(2, b)?))
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { operands: Operands::of(cx)?, of: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(self.operands.launch(Self::TEXT, "udo_ternary"));
        Ok(())
    }
}

/// Where a work item has its operands.
struct Operands<const N: usize> {
    len: usize,
    /// 0 repeats an operand's only element.
    steps: [u8; N],
}

impl<const N: usize> Operands<N> {
    fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let mut steps = [0; N];
        for (port, step) in steps.iter_mut().enumerate() {
            let operand = cx.input(port)?;
            *step = match operand.len() {
                1 => 0,
                len if len == y.len() => 1,
                _ => {
                    return Err(Error::new(format!(
                        "an input is {operand}, wanted {y} or one element"
                    )));
                }
            };
        }
        Ok(Self { len: y.len(), steps })
    }

    fn launch(&self, source: &'static str, name: &'static str) -> Launch {
        let steps = self.steps.map(|step| GpuArg::u32(u32::from(step)));
        Launch::new(source, name)
            .args((0..).take(N).map(GpuArg::input))
            .args([GpuArg::output(0)])
            .args(steps)
            .global_size([self.len, 1, 1])
    }
}

impl Operands<2> {
    fn load(&self, item: WorkItem, buffers: &Buffers<'_>) -> Result<(f32, f32), ExecError> {
        let [i, ..] = item.global_id;
        let [a_step, b_step] = self.steps.map(usize::from);
        Ok((buffers.load(0, i * a_step)?, buffers.load(1, i * b_step)?))
    }
}
