//! Floating-point convolutions: f32 by the algorithm that suits the shape, f64 by the definition.

use std::marker::PhantomData;

use udo_api::{
    AcceptCx, Core, Error, ExecError, FinalizeCx, InferCx, InputShapes, Io, Kernel, KernelDef,
    Needs, Node, Op, OpSchema, Packed, Param, Port, PortRule, Scratch, Status, TensorDesc, TypeSet,
    Workspace, input, input_like, output_like, types,
};

use super::gpu::ConvGpu;
use super::plain::PlainConv;
use super::{Conv, ConvPlan, F32Packing, Weights, has_bias, output_shape};
use crate::Def;
use crate::family::epilogue::{Fused, Takes};
use crate::family::layout::{ChannelsLast, ChannelsSecond, FewChannels, Layout};
use crate::family::matmul::Factors;
use crate::family::results::Results;

/// Reads a node as a convolution. The family provides schema, inference, kernels for images in any layout and for the
/// GPU, fused steps and threading.
pub(crate) trait FloatConv: Send + Sync + 'static {
    const NAME: &'static str;
    const PARAMS: &'static [Param];

    /// Reads the parameters of a convolution of `x` with weights `w`.
    fn read(node: &Node<'_>, x: &TensorDesc, w: &TensorDesc) -> Result<Conv, Error>;
}

/// Defines the operator whose nodes `C` reads.
pub(crate) const fn float_conv<C: FloatConv>() -> Def {
    Def::new::<Described<C>>(Described::<C>::KERNELS)
}

/// The types without an f32 kernel.
const OTHERS: TypeSet = types::F64.or(types::F16).or(types::BF16);
const TYPES: TypeSet = OTHERS.or(types::F32);

/// The operator whose nodes `C` reads.
struct Described<C>(PhantomData<fn() -> C>);

impl<C: FloatConv> Described<C> {
    const KERNELS: &'static [KernelDef] = &[
        kernel::<C, FewChannels>(),
        kernel::<C, ChannelsLast>(),
        kernel::<C, ChannelsSecond>(),
        KernelDef::new::<PlainConv<C>>(C::NAME, Core::CPU).ports(&[
            input(0, OTHERS),
            input_like(1, 0),
            input_like(2, 0),
            output_like(0, 0),
        ]),
        ConvGpu::<C>::DEF,
    ];
}

const fn kernel<C: FloatConv, L: Layout>() -> KernelDef {
    KernelDef::new::<ConvF32<C, L>>(C::NAME, Core::CPU).ports(ConvF32::<C, L>::RULES)
}

impl<C: FloatConv> Op for Described<C> {
    const SCHEMA: OpSchema = OpSchema::new(
        C::NAME,
        &[Port::required("X", TYPES), Port::required("W", TYPES), Port::optional("B", TYPES)],
        &[Port::required("Y", TYPES)],
        C::PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let shape = output_shape(&C::read(cx, &x, &w)?, &x)?;
        cx.set_output(0, x.dtype().map_or(x, |t| x.with_dtype(t)).with_shape(shape))
    }
}

/// CPU kernel of f32 convolutions for images in the layout `L`.
struct ConvF32<C, L> {
    marker: PhantomData<fn() -> (C, L)>,
    plan: ConvPlan,
    /// Packed weights; `None` if they are not constant.
    weights: Option<Packed<f32>>,
    fused: Fused,
    /// Scratch elements for sums that are quantized.
    strips_len: usize,
}

impl<C: FloatConv, L: Layout> ConvF32<C, L> {
    const RULES: &'static [PortRule] = &L::PORTS.pitched([
        input(0, types::F32),
        input_like(1, 0),
        input_like(2, 0),
        output_like(0, 0),
    ]);
}

impl<C, L> ConvF32<C, L> {
    /// Returns the scratch elements of the plan: input, output and workspace.
    fn scratch_lens(&self) -> [usize; 3] {
        let [input, output, workspace] = self.plan.scratch_lens();
        [input, output, workspace.saturating_add(self.strips_len)]
    }

    /// Returns the scratch elements for weights that are not constant.
    fn packed_len(&self) -> usize {
        if self.weights.is_some() { 0 } else { self.plan.packed_len() }
    }
}

impl<C: FloatConv, L: Layout> ConvF32<C, L> {
    fn conv(node: &Node<'_>) -> Result<Conv, Error> {
        C::read(node, &L::PORTS.described(&node.input(0)?)?, &node.input(1)?)
    }

    /// Returns the epilogue steps that the kernel can take over.
    fn takes(node: &Node<'_>, conv: &Conv) -> Takes {
        let axis = if L::PORTS.output { 3 } else { 1 };
        let bias = (!node.has_input(2)).then_some(axis);
        // With channels second the output is converted anyway, and quantizing it afterwards is as fast.
        Takes {
            bias,
            residual: ConvPlan::takes_residual(conv, L::PORTS),
            quantized: L::PORTS.output,
        }
    }
}

impl<C: FloatConv, L: Layout> Kernel for ConvF32<C, L> {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(Self::takes(cx, &Self::conv(cx)?).leading(cx.epilogue()).0)
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let conv = Self::conv(cx)?;
        let has_bias = has_bias(cx, &conv)?;
        let is_constant = cx.is_constant(1);
        let memory_price = is_constant.then(|| cx.memory_price());
        let plan = ConvPlan::new(&conv, memory_price, Factors::choose(cx, 1), L::PORTS)
            .ok_or_else(|| Error::new("the convolution exceeds the address space"))?;
        let (_, mut fused) = Self::takes(cx, &conv).leading(cx.epilogue());
        fused.bias = fused.bias.or(has_bias.then_some(2));
        // Checked last, so that errors of the node itself are reported first.
        L::check(conv.groups * conv.inputs)?;
        let weights = if is_constant {
            // The recipe identifies the layout of the packed weights.
            let recipe = plan.recipe().integers();
            Some(cx.pack(&[1], &recipe, plan.packed_len(), F32Packing::fill)?)
        } else {
            None
        };
        cx.work(plan.work())?;
        let strips_len = if fused.quantized.is_some() { plan.strips_len(cx.threads()) } else { 0 };
        Ok(Self { marker: PhantomData, plan, weights, fused, strips_len })
    }

    fn workspace(&self) -> Workspace {
        let [input, output, workspace] = self.scratch_lens();
        let images = Workspace::for_elements::<f32>(input).and::<f32>(output).and::<f32>(workspace);
        images.and::<f32>(self.packed_len())
    }

    fn needs(&self, _: InputShapes<'_>) -> Result<Needs, Error> {
        let geometry = Workspace::for_elements::<u32>(self.plan.table_len());
        Ok(Needs { scratch: self.workspace(), geometry })
    }

    fn prepare(&self, _: InputShapes<'_>, mut geometry: Scratch<'_>) -> Result<(), ExecError> {
        let is_filled = self.plan.fill(geometry.take(self.plan.table_len())?);
        is_filled.then_some(()).ok_or(ExecError::new(Status::BAD_VALUE))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, packed, mut geometry } = io;
        let [input, output, workspace] = self.scratch_lens();
        let images = [scratch.take(input)?, scratch.take(output)?, scratch.take(workspace)?];
        let packed_in_run = scratch.take::<f32>(self.packed_len())?;
        let weights = if let Some(weights) = self.weights {
            packed.get(weights)?
        } else {
            self.plan.recipe().pack(inputs.get::<f32>(1)?, packed_in_run);
            &*packed_in_run
        };
        let x = inputs.strided::<f32>(0)?;
        let epilogue = self.fused.epilogue(&inputs, self.plan.outputs())?;
        let table = geometry.take(self.plan.table_len())?;
        let weights = Weights { packed: weights, table, epilogue };
        let y = Results::take(&mut outputs, self.fused.quantized, self.plan.outputs())?;
        self.plan.run(parallel, x, weights, images, y)
    }
}
