//! A good package in one library: `y = gain * (share * w * x + (1 - share) * mean)`, where `mean` is that of the row of `x`
//! and `w` has an element for each column.

use udo_api::{
    Buffers, Core, CoreTypes, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, Io,
    Kernel, KernelDef, KernelInfo, Launch, Op, OpDef, OpSchema, PackageV1, Param, Port, PortRule,
    Quant, QuantMut, Quantization, Scratch, Value, WorkItem, WorkItemFn, Workspace, dsp_kernel,
    input, output, output_like, types,
};

const OPS: &[OpDef] = &[OpDef::of::<Blend>()];

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<BlendF32>("Blend", Core::CPU).ports(CPU_PORTS),
    KernelDef::gpu::<BlendGpu>("Blend").ports(GPU_PORTS),
    KernelDef::new::<BlendDsp>("Blend", Core::dsp(68)).ports(DSP_PORTS),
];

udo_api::export_package!(PackageV1::new("Blend", env!("CARGO_PKG_VERSION")).ops(OPS).kernels(KERNELS));

struct Blend;

const TYPES: &[CoreTypes] = &[
    CoreTypes::new(Core::CPU, types::F32),
    CoreTypes::new(Core::GPU, types::F32.or(types::F16)),
    CoreTypes::new(Core::dsp(68), types::U8),
];

const fn port(name: &'static str) -> Port {
    Port::required(name, types::F32.or(types::F16).or(types::U8))
        .per_core(TYPES)
        .quantization(Quantization::Tf)
}

impl Op for Blend {
    const SCHEMA: OpSchema = OpSchema::new(
        "Blend",
        &[port("x"), port("w")],
        &[port("y")],
        &[
            Param::scalar("share", DType::F32).default(Value::float(0.75)),
            Param::scalar("gain", DType::F32).default(Value::float(1.5)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let Some(&cols) = x.shape().last() else {
            return Err(Error::new(format!("input \"x\" is {x}, expected one dimension or more")));
        };
        if w.shape() != [cols] {
            return Err(Error::new(format!("input \"w\" is {w}, expected a vector of {cols}")));
        }
        let y = udo_api::TensorDesc::new(x.dtype().unwrap_or(DType::F32), x.full_shape());
        cx.set_output(0, y)
    }
}

/// The formula of one element on all cores.
#[derive(Clone, Copy)]
struct Formula {
    share: f32,
    gain: f32,
}

impl Formula {
    fn new(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { share: cx.float32("share")?, gain: cx.float32("gain")? })
    }

    fn at(self, x: f32, w: f32, mean: f32) -> f32 {
        self.gain * (self.share * w * x + (1.0 - self.share) * mean)
    }
}

const CPU_PORTS: &[PortRule] =
    &[input(0, types::F32).pitched(), input(1, types::F32), output(0, types::F32).pitched()];

struct BlendF32 {
    formula: Formula,
    cols: usize,
}

impl Kernel for BlendF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let cols = cx.input(1)?.len();
        Ok(Self { formula: Formula::new(cx)?, cols })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f32>(self.cols)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let x = inputs.rows::<f32>(0)?;
        let w = inputs.get::<f32>(1)?;
        let mut y = outputs.take_rows::<f32>(0)?;
        let scaled = scratch.take::<f32>(self.cols)?;
        for (scaled, w) in scaled.iter_mut().zip(w) {
            *scaled = *w;
        }
        let scaled = &*scaled;
        parallel.rows_mut(&mut y, |index, y| {
            let Some(x) = x.get(index) else { return Ok(()) };
            let mean = x.iter().sum::<f32>() / x.len() as f32;
            for ((y, x), w) in y.iter_mut().zip(x).zip(scaled) {
                *y = self.formula.at(*x, *w, mean);
            }
            Ok(())
        })
    }
}

const GPU_PORTS: &[PortRule] =
    &[input(0, types::F32.or(types::F16)), input(1, types::F32.or(types::F16)), output_like(0, 0)];

const SOURCE: &str = "
__kernel void blend(__global const UDO_STORAGE *x, __global const UDO_STORAGE *w, __global UDO_STORAGE *y,
                    const uint cols, const float share, const float gain) {
    const size_t row = get_global_id(0) * cols;
    float sum = 0.0f;
    for (uint i = 0; i < cols; i++) sum += UDO_LOAD(x, row + i);
    const float mean = sum / cols;
    for (uint i = 0; i < cols; i++) {
        const float own = share * UDO_LOAD(w, i) * UDO_LOAD(x, row + i);
        UDO_STORE(y, row + i, gain * (own + (1.0f - share) * mean));
    }
}";

struct BlendGpu {
    formula: Formula,
    rows: usize,
    cols: u32,
}

impl GpuKernel for BlendGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(work_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, cols) = (cx.input(0)?, cx.input(1)?.len());
        let rows = x.len().checked_div(cols).unwrap_or(0);
        let wide = |_| Error::new(format!("{cols} columns are too many"));
        Ok(Self { formula: Formula::new(cx)?, rows, cols: u32::try_from(cols).map_err(wide)? })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let Formula { share, gain } = self.formula;
        let ports = [GpuArg::input(0), GpuArg::input(1), GpuArg::output(0)];
        let numbers = [GpuArg::u32(self.cols), GpuArg::f32(share), GpuArg::f32(gain)];
        let launch = Launch::new(SOURCE, "blend").args(ports.into_iter().chain(numbers));
        info.push_launch(launch.global_size([self.rows, 1, 1]));
        Ok(())
    }
}

fn work_item(kernel: &BlendGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let cols = kernel.cols as usize;
    let row = item.global_id[0] * cols;
    let mut sum = 0.0;
    for i in 0..cols {
        sum += buffers.load(0, row + i)?;
    }
    let mean = sum / cols as f32;
    for i in 0..cols {
        let (x, w) = (buffers.load(0, row + i)?, buffers.load(1, i)?);
        buffers.store(0, row + i, kernel.formula.at(x, w, mean))?;
    }
    Ok(())
}

const DSP_PORTS: &[PortRule] = &[input(0, types::U8), input(1, types::U8), output(0, types::U8)];

dsp_kernel!(BlendDsp = blend_impl(out: [u8], in: [u8, u8], params: { share: f32, gain: f32 }));

fn blend_impl(
    y: QuantMut<'_, u8>,
    x: Quant<'_, u8>,
    w: Quant<'_, u8>,
    share: f32,
    gain: f32,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let formula = Formula { share, gain };
    let cols = w.data.len().max(1);
    for (y_row, x_row) in y.data.chunks_exact_mut(cols).zip(x.data.chunks_exact(cols)) {
        let sum: f32 = x_row.iter().map(|&q| x.encoding.dequantize(q)).sum();
        let mean = sum / cols as f32;
        for ((to, &q), &weight) in y_row.iter_mut().zip(x_row).zip(w.data) {
            let (x, w) = (x.encoding.dequantize(q), w.encoding.dequantize(weight));
            *to = y.encoding.quantize(formula.at(x, w, mean));
        }
    }
    Ok(())
}
