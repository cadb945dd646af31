//! Copies the input: dropout is active in training only.

use udo_api::{
    Bool, Core, DType, Error, ExecError, Facts, FinalizeCx, GpuArg, GpuKernel, InferCx, Io, Kernel,
    KernelDef, KernelInfo, Launch, Op, OpSchema, Param, Port, TypeSet, WorkItemFn, input,
    output_like, types,
};

use crate::Def;
use crate::family::gpu::REAL;
use crate::family::shape::{Copied, IN_PLACE};

pub(crate) const DEF: Def = Def::new::<Dropout>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<PassThrough>("Dropout", Core::CPU)
        .ports(&[input(0, TYPES), output_like(0, 0)])
        .in_place(IN_PLACE),
    KernelDef::gpu::<OnGpu>("Dropout").ports(&[input(0, REAL), output_like(0, 0)]),
];

const TYPES: TypeSet = types::FLOATS;

struct Dropout;

impl Op for Dropout {
    const SCHEMA: OpSchema = OpSchema::new(
        "Dropout",
        &[
            Port::required("data", TYPES),
            Port::optional("ratio", TYPES),
            Port::optional("training_mode", types::BOOL),
        ],
        &[Port::required("output", TYPES), Port::optional("mask", types::BOOL)],
        &[Param::scalar("seed", DType::I64).optional()],
    )
    .facts(Facts::VIEW);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if cx.has_input(2) {
            match cx.constant::<Bool>(2)? {
                Some([training]) if !training.get() => {}
                Some(_) => return Err(Error::new("input 2 asks for training")),
                None => return Err(Error::new("input 2 is computed, expected false in the model")),
            }
        }
        cx.set_output(0, x)?;
        if cx.output_count() > 1 {
            cx.set_output(1, x.with_dtype(DType::Bool))?;
        }
        Ok(())
    }
}

/// Copies the input and fills the mask, if requested, with true.
struct PassThrough {
    copy: Copied,
    has_mask: bool,
}

impl Kernel for PassThrough {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { copy: Copied::finalize(cx)?, has_mask: cx.has_output(1) })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        self.copy.run(&mut io)?;
        if self.has_mask {
            io.outputs.take::<Bool>(1)?.fill(Bool::from(true));
        }
        Ok(())
    }
}

/// GPU kernel: one element per work item.
struct OnGpu {
    len: usize,
    has_mask: bool,
}

const SOURCE: &str = "
__kernel void udo_kept(__global const UDO_STORAGE *x, __global UDO_STORAGE *y) {
    const size_t i = get_global_id(0);
    UDO_STORE(y, i, UDO_LOAD(x, i));
}

__kernel void udo_masked(__global const UDO_STORAGE *x, __global UDO_STORAGE *y, __global uchar *mask) {
    udo_kept(x, y);
    mask[get_global_id(0)] = 1;
}
";

impl GpuKernel for OnGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        buffers.store(0, i, buffers.load(0, i)?)?;
        if kernel.has_mask { buffers.set(1, i, Bool::from(true)) } else { Ok(()) }
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { len: cx.output(0)?.len(), has_mask: cx.has_output(1) })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let name = if self.has_mask { "udo_masked" } else { "udo_kept" };
        let mask = self.has_mask.then_some(GpuArg::output(1));
        let launch = Launch::new(SOURCE, name).args([GpuArg::input(0), GpuArg::output(0)]);
        info.push_launch(launch.args(mask).global_size([self.len, 1, 1]));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bool, Core};

    use crate::testing::{bench, tensor};

    #[test]
    fn inference_copies_the_input() {
        for core in [Core::CPU, Core::GPU] {
            let run = bench("Dropout").on(core).input(tensor(&[2], &[1f32, -2.0]));
            assert_eq!(run.clone().one().values::<f32>(), [1.0, -2.0]);
            let run = run.constant(tensor(&[], &[0.5f32]));
            let outputs = run.constant(tensor(&[], &[Bool::from(false)])).outputs(2).all();
            assert_eq!(outputs[0].values::<f32>(), [1.0, -2.0]);
            assert_eq!(outputs[1].values::<Bool>(), [Bool::from(true); 2]);
        }
    }

    #[test]
    fn training_is_refused() {
        let run = |training| {
            let run = bench("Dropout").input(tensor(&[1], &[1f32])).absent();
            run.constant(tensor(&[], &[Bool::from(training)]))
        };
        assert_eq!(run(false).one().values::<f32>(), [1.0]);
        assert_eq!(run(true).error(), "input 2 asks for training");
        let run = bench("Dropout").input(tensor(&[1], &[1f32])).absent();
        let run = run.input(tensor(&[], &[Bool::from(false)]));
        assert_eq!(run.error(), "input 2 is computed, expected false in the model");
    }
}
