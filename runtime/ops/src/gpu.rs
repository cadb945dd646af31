//! GPU kernels that compute one element per work item.

use std::marker::PhantomData;

use udo_api::{
    Buffers, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, KernelDef, KernelInfo, TensorDesc,
    TypeRule, WorkItem, WorkItemFn, input, input_like, output_like, types,
};

const REAL: udo_api::TypeSet = types::F32.or(types::F16);

/// A GPU program with one kernel of one operand, and the same in Rust.
pub(crate) trait MapProgram: Send + Sync + 'static {
    const NAME: &'static str;
    const SOURCE: &'static str;
    fn of(x: f32) -> f32;
}

/// A GPU program with one kernel of two operands, and the same in Rust.
pub(crate) trait PairProgram: Send + Sync + 'static {
    const NAME: &'static str;
    const SOURCE: &'static str;
    fn of(a: f32, b: f32) -> f32;
}

/// The GPU kernel of an operator with one operand.
pub(crate) const fn map<P: MapProgram>(op: &'static str) -> KernelDef {
    const RULES: &[TypeRule] = &[input(0, REAL), output_like(0, 0)];
    KernelDef::gpu::<Map<P>>(op).types(RULES)
}

/// The GPU kernel of an operator with two operands of one shape, or one of them with one element.
pub(crate) const fn pair<P: PairProgram>(op: &'static str) -> KernelDef {
    const RULES: &[TypeRule] = &[input(0, REAL), input_like(1, 0), output_like(0, 0)];
    KernelDef::gpu::<Pair<P>>(op).types(RULES)
}

struct Map<P> {
    len: usize,
    program: PhantomData<fn() -> P>,
}

impl<P: MapProgram> GpuKernel for Map<P> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(map_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { len: cx.output(0)?.len(), program: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.set_source(P::SOURCE, P::NAME, "");
        info.push_arg(GpuArg::input(0))?;
        info.push_arg(GpuArg::output(0))?;
        info.set_global_size([self.len, 1, 1]);
        Ok(())
    }
}

fn map_item<P: MapProgram>(
    _: &Map<P>,
    item: WorkItem,
    buffers: &Buffers<'_>,
) -> Result<(), ExecError> {
    let [i, ..] = item.global_id;
    buffers.store(0, i, P::of(buffers.load(0, i)?))
}

struct Pair<P> {
    len: usize,
    steps: [u8; 2],
    program: PhantomData<fn() -> P>,
}

impl<P: PairProgram> GpuKernel for Pair<P> {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(pair_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        let step = |operand: TensorDesc| match operand.len() {
            1 => Ok(0),
            len if len == y.len() => Ok(1),
            _ => Err(Error::new(format!("an input is {operand}, wanted {y} or one element"))),
        };
        let steps = [step(cx.input(0)?)?, step(cx.input(1)?)?];
        Ok(Self { len: y.len(), steps, program: PhantomData })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.set_source(P::SOURCE, P::NAME, "");
        info.push_arg(GpuArg::input(0))?;
        info.push_arg(GpuArg::input(1))?;
        info.push_arg(GpuArg::output(0))?;
        for step in self.steps {
            info.push_arg(GpuArg::u32(u32::from(step)))?;
        }
        info.set_global_size([self.len, 1, 1]);
        Ok(())
    }
}

fn pair_item<P: PairProgram>(
    kernel: &Pair<P>,
    item: WorkItem,
    buffers: &Buffers<'_>,
) -> Result<(), ExecError> {
    let [i, ..] = item.global_id;
    let [a_step, b_step] = kernel.steps.map(usize::from);
    let (a, b) = (buffers.load(0, i * a_step)?, buffers.load(1, i * b_step)?);
    buffers.store(0, i, P::of(a, b))
}
