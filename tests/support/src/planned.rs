//! A package whose kernels ask for everything that the planner can do: strided rows, outputs in the place of
//! inputs, channels last on either side, extents that only a run says, and other cores.

use udo_api::types::{F32, U8};
use udo_api::{
    Buffers, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, GpuKernel, InPlace, InferCx,
    Io, Kernel, KernelDef, KernelInfo, Launch, Node, Op, OpDef, OpSchema, PackageV1, Pair, Param,
    Port, PortRule, Quant, QuantMut, Scratch, Shape, WorkItem, WorkItemFn, any_input, any_output,
    dsp_kernel, input, output,
};

use crate::positive::{Positive, PositiveF32};

const FIRST: InPlace = InPlace { input: 0, output: 0 };
const LAST_IN: PortRule = any_input(0).channels_last();
const LAST_OUT: PortRule = any_output(0).channels_last();
const PITCHED: &[PortRule] =
    &[any_input(0).pitched(), any_output(0).pitched(), any_output(1).pitched()];

/// The package, to be linked in or exported.
pub const PACKAGE: PackageV1 = PackageV1::new("Fuzz", "1.0.0")
    .ops(&[
        OpDef::of::<Like<0>>(),
        OpDef::of::<Like<1>>(),
        OpDef::of::<Like<2>>(),
        OpDef::of::<Like<3>>(),
        OpDef::of::<Like<4>>(),
        OpDef::of::<Like<5>>(),
        OpDef::of::<Like<6>>(),
        OpDef::of::<Beside<false>>(),
        OpDef::of::<Beside<true>>(),
        OpDef::of::<Weighted>(),
        OpDef::of::<Fork>(),
        OpDef::of::<Positive>(),
        OpDef::of::<Flat>(),
        OpDef::of::<Rest>(),
    ])
    .kernels(&[
        KernelDef::new::<TwiceF32>("Twice", Core::CPU)
            .ports(PITCHED.split_at(2).0)
            .in_place(&[FIRST]),
        KernelDef::new::<ThriceF32>("Thrice", Core::CPU)
            .ports(&[any_input(0).pitched_alone(), any_output(0).pitched_alone()]),
        KernelDef::gpu::<TwiceGpu>("TwiceOnGpu"),
        KernelDef::new::<TwiceF32>("TwiceOnDsp", Core::CPU),
        KernelDef::new::<TwiceDsp>("TwiceOnDsp", Core::DSP_V68)
            .ports(&[input(0, U8), output(0, U8)]),
        KernelDef::new::<ChannelF32>("Channel", Core::CPU)
            .ports(&[LAST_IN, LAST_OUT])
            .in_place(&[FIRST]),
        KernelDef::new::<OneSideF32<true>>("ChannelIn", Core::CPU).ports(&[LAST_IN]),
        KernelDef::new::<OneSideF32<false>>("ChannelOut", Core::CPU).ports(&[LAST_OUT]),
        KernelDef::new::<BesideF32>("Beside", Core::CPU),
        KernelDef::new::<BesideF32>("BesideStrided", Core::CPU).ports(PITCHED.split_at(2).0),
        KernelDef::new::<WeightedF32>("Weighted", Core::CPU)
            .in_place(&[FIRST, InPlace { input: 1, output: 0 }]),
        KernelDef::new::<ForkF32>("Fork", Core::CPU)
            .ports(PITCHED)
            .in_place(&[FIRST, InPlace { input: 0, output: 1 }]),
        PositiveF32::DEF,
        KernelDef::new::<FlatF32>("Flat", Core::CPU).in_place(&[FIRST]),
        KernelDef::new::<RestF32>("Rest", Core::CPU),
    ]);

const IN: &[Port] = &[Port::required("x", F32)];
const SEVERAL: &[Port] = &[Port::required("xs", F32).repeated()];
const OUT: &[Port] = &[Port::required("y", F32)];

const NAMES: [&str; 7] =
    ["Twice", "TwiceOnGpu", "TwiceOnDsp", "Channel", "ChannelIn", "ChannelOut", "Thrice"];

/// An operator whose output is like its input.
struct Like<const NAME: usize>;

impl<const NAME: usize> Op for Like<NAME> {
    const SCHEMA: OpSchema = OpSchema::new(NAMES[NAME], IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// Twice its input, row by row if rows are strided.
struct TwiceF32;

impl Kernel for TwiceF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        if io.inputs.is_dense(0)? && io.outputs.is_dense(0)? {
            match io.pair::<f32>(0, 0)? {
                Pair::Same(y) => y.iter_mut().for_each(|y| *y *= 2.0),
                Pair::Apart(x, y) => y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x),
            }
            return Ok(());
        }
        let x = io.inputs.rows::<f32>(0)?;
        let mut y = io.outputs.take_rows::<f32>(0)?;
        for (row, x) in x.iter().enumerate() {
            let y = y.get_mut(row).unwrap_or_default();
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        }
        Ok(())
    }
}

/// Three times its input, between whose rows, and those of its output, nothing else of the call lies.
struct ThriceF32 {
    cols: usize,
}

impl Kernel for ThriceF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { cols: cx.input(0)?.shape().last().copied().unwrap_or(1) })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, from) = inputs.strided::<f32>(0)?;
        let (y, to) = outputs.take_strided::<f32>(0)?;
        for (x, y) in x.chunks(from.max(1)).zip(y.chunks_mut(to.max(1))) {
            x.iter().zip(y).take(self.cols).for_each(|(x, y)| *y = 3.0 * x);
        }
        Ok(())
    }
}

struct TwiceGpu {
    len: usize,
}

impl GpuKernel for TwiceGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(twice_item);

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { len: cx.output(0)?.len() })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        info.push_launch(Launch::new("", "twice").global_size([self.len, 1, 1]));
        Ok(())
    }
}

fn twice_item(_: &TwiceGpu, item: WorkItem, buffers: &Buffers<'_>) -> Result<(), ExecError> {
    let i = item.global_id[0];
    buffers.store(0, i, 2.0 * buffers.load(0, i)?)
}

dsp_kernel!(TwiceDsp = twice_impl(out: [u8], in: [u8], params: {}));

#[expect(clippy::needless_pass_by_value, reason = "outputs belong to the call")]
#[expect(clippy::unnecessary_wraps, reason = "the macro wants this type")]
fn twice_impl(out: QuantMut<'_, u8>, x: Quant<'_, u8>, _: Scratch<'_>) -> Result<(), ExecError> {
    for (y, &x_value) in out.data.iter_mut().zip(x.data) {
        *y = out.encoding.quantize(2.0 * x.encoding.dequantize(x_value));
    }
    Ok(())
}

/// Its input and the number of its channel, channels last.
struct ChannelF32 {
    channels: usize,
}

impl Kernel for ChannelF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { channels: cx.input(0)?.shape().last().copied().unwrap_or(1).max(1) })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let add = |y: &mut [f32]| {
            for pixel in y.chunks_mut(self.channels) {
                pixel.iter_mut().zip(numbers()).for_each(|(y, number)| *y += number);
            }
        };
        match io.pair::<f32>(0, 0)? {
            Pair::Same(y) => add(y),
            Pair::Apart(x, y) => {
                y.copy_from_slice(x);
                add(y);
            }
        }
        Ok(())
    }
}

/// 0, 1, 2 and so on.
fn numbers() -> impl Iterator<Item = f32> {
    std::iter::successors(Some(0.0f32), |n| Some(n + 1.0))
}

/// The same with channels last on one side only.
struct OneSideF32<const IN_LAST: bool> {
    images: usize,
    channels: usize,
    pixels: usize,
}

impl<const IN_LAST: bool> Kernel for OneSideF32<IN_LAST> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        match *cx.input(0)?.shape() {
            [images, height, width, channels] if IN_LAST => {
                Ok(Self { images, channels, pixels: height * width })
            }
            [images, channels, height, width] => {
                Ok(Self { images, channels, pixels: height * width })
            }
            _ => Err(Error::new("expected rank 4")),
        }
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        for image in 0..self.images {
            for (channel, number) in (0..self.channels).zip(numbers()) {
                for pixel in 0..self.pixels {
                    let second = (image * self.channels + channel) * self.pixels + pixel;
                    let last = (image * self.pixels + pixel) * self.channels + channel;
                    let (from, to) = if IN_LAST { (last, second) } else { (second, last) };
                    y[to] = x[from] + number;
                }
            }
        }
        Ok(())
    }
}

/// Its inputs side by side along the last axis.
struct Beside<const STRIDED: bool>;

impl<const STRIDED: bool> Op for Beside<STRIDED> {
    const SCHEMA: OpSchema =
        OpSchema::new(if STRIDED { "BesideStrided" } else { "Beside" }, SEVERAL, OUT, &[])
            .facts(Facts::CONCAT);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let first = cx.input(0)?;
        let mut dims = first.shape().to_vec();
        let Some(cols) = dims.last_mut() else { return Err(Error::new("expected an axis")) };
        for i in 1..cx.input_count() {
            *cols += cx.input(i)?.shape().last().copied().unwrap_or(0);
        }
        cx.set_output(0, first.with_shape(Shape::new(&dims)?))
    }
}

struct BesideF32;

impl Kernel for BesideF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let mut y = outputs.take_rows::<f32>(0)?;
        for row in 0..y.len() {
            let mut rest = y.get_mut(row).unwrap_or_default();
            for port in 0..inputs.len() {
                let x = inputs.rows::<f32>(port)?.get(row).unwrap_or_default();
                let (part, others) = rest.split_at_mut(x.len());
                part.copy_from_slice(x);
                rest = others;
            }
        }
        Ok(())
    }
}

/// `a + 3 b`, in the place of either.
struct Weighted;

impl Op for Weighted {
    const SCHEMA: OpSchema =
        OpSchema::new("Weighted", &[Port::required("a", F32), Port::required("b", F32)], OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let a = cx.input(0)?;
        cx.set_output(0, a)
    }
}

struct WeightedF32;

impl Kernel for WeightedF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        if let Ok(y) = io.in_place::<f32>(1, 0) {
            let a = io.inputs.get::<f32>(0)?;
            y.iter_mut().zip(a).for_each(|(y, a)| *y = a + 3.0 * *y);
            return Ok(());
        }
        let b = io.inputs.get::<f32>(1)?;
        match io.pair::<f32>(0, 0)? {
            Pair::Same(y) => y.iter_mut().zip(b).for_each(|(y, b)| *y += 3.0 * b),
            Pair::Apart(a, y) => {
                for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                    *y = a + 3.0 * b;
                }
            }
        }
        Ok(())
    }
}

/// `x + 1` and `x - 2`, either of them in the place of x.
struct Fork;

impl Op for Fork {
    const SCHEMA: OpSchema =
        OpSchema::new("Fork", IN, &[Port::required("y", F32), Port::required("z", F32)], &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)?;
        cx.set_output(1, x)
    }
}

struct ForkF32 {
    cols: usize,
}

const ADDED: [f32; 2] = [1.0, -2.0];

impl Kernel for ForkF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { cols: cx.input(0)?.shape().last().copied().unwrap_or(1).max(1) })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        for (own, other) in [(0, 1), (1, 0)] {
            let Ok(x) = io.in_place::<f32>(0, own) else { continue };
            let mut rows = io.outputs.take_rows::<f32>(other)?;
            for (row, x) in x.chunks_mut(self.cols).enumerate() {
                let y = rows.get_mut(row).unwrap_or_default();
                for (x, y) in x.iter_mut().zip(y) {
                    *y = *x + ADDED[other];
                    *x += ADDED[own];
                }
            }
            return Ok(());
        }
        let x = io.inputs.rows::<f32>(0)?;
        for (port, added) in ADDED.into_iter().enumerate() {
            let mut rows = io.outputs.take_rows::<f32>(port)?;
            for (row, x) in x.iter().enumerate() {
                let y = rows.get_mut(row).unwrap_or_default();
                y.iter_mut().zip(x).for_each(|(y, x)| *y = x + added);
            }
        }
        Ok(())
    }
}

/// Its input as one row: a view.
struct Flat;

impl Op for Flat {
    const SCHEMA: OpSchema = OpSchema::new("Flat", IN, OUT, &[]).facts(Facts::VIEW);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x.with_shape(Shape::new(&[x.len()])?))
    }
}

struct FlatF32;

impl Kernel for FlatF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        if let Pair::Apart(x, y) = io.pair::<f32>(0, 0)? {
            y.copy_from_slice(x);
        }
        Ok(())
    }
}

/// The rest of a tensor after an index of an axis, as a part that its kernel names.
struct Rest;

impl Rest {
    fn read(node: &Node<'_>) -> Result<[usize; 2], Error> {
        let start = usize::try_from(node.int("start")?).map_err(|e| Error::new(e.to_string()))?;
        Ok([node.axis("axis", node.input(0)?.rank())?, start])
    }
}

impl Op for Rest {
    const SCHEMA: OpSchema = OpSchema::new(
        "Rest",
        IN,
        OUT,
        &[Param::scalar("axis", DType::I64), Param::scalar("start", DType::I64)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let [axis, start] = Self::read(cx)?;
        let x = cx.input(0)?;
        let mut dims: Vec<Dim> = x.full_shape().iter().collect();
        match dims[axis] {
            Dim::UpTo(_) => return Err(Error::new("expected a fixed axis")),
            known => dims[axis] = known.with(known.bound() - start),
        }
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }
}

struct RestF32 {
    /// Elements of what is cut, of what is left, and of what is not taken of each.
    lens: [usize; 3],
}

impl Kernel for RestF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let [axis, start] = Rest::read(cx)?;
        cx.tie_output_in_input(0, 0, axis, start)?;
        let inner: usize = cx.input(0)?.shape()[axis + 1..].iter().product();
        let extents = [cx.input(0)?.shape()[axis], cx.output(0)?.shape()[axis], start];
        Ok(Self { lens: extents.map(|extent| extent * inner) })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let [from, to, skip] = self.lens;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        for (x, y) in x.chunks_exact(from.max(1)).zip(y.chunks_exact_mut(to.max(1))) {
            y.copy_from_slice(&x[skip..][..to]);
        }
        Ok(())
    }
}
