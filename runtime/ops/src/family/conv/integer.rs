//! The kernel of 8-bit integer convolutions, with optional scales and zero points and prepacked weights.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InputShapes, Io, Kernel, KernelDef, Needs, Op,
    PortRule, Status, Workspace, input, types,
};
use udo_simd::conv_u8::MAX_K;

use super::filters::{ConvPorts, Filters};
use super::{
    Conv, Direction, Operands, QuantizedConvPlan, QuantizedInput, QuantizedOutput, Scratch,
    ScratchLens,
};
use crate::Def;
use crate::family::layout::{ChannelsLast, ChannelsSecond, FewChannels, Layout};
use crate::family::quantized::{VALUES, first};

/// The input port of images.
pub(super) const X: usize = 0;

/// An operator that is an 8-bit integer convolution, and its ports.
pub(crate) trait IntegerConv: Op + Send + Sync + 'static {
    const NAME: &'static str;
    const PORTS: ConvPorts;
    const DIRECTION: Direction = Direction::Forward;
}

/// Defines the operator `O` of 8-bit values.
pub(crate) const fn integer_conv<O: IntegerConv>() -> Def {
    Def::new::<O>(QuantizedConv::<O, ChannelsSecond>::ALL)
}

impl<O: IntegerConv, L: Layout> QuantizedConv<O, L> {
    const RULES: &'static [PortRule] = &L::PORTS.pitched_output([
        input(X as u16, VALUES),
        input(O::PORTS.w as u16, VALUES),
        udo_api::output(0, VALUES.or(types::I32)),
    ]);
    const DEF: KernelDef = KernelDef::new::<Self>(O::NAME, Core::CPU).ports(Self::RULES);
}

impl<O: IntegerConv> QuantizedConv<O, ChannelsSecond> {
    pub(super) const ALL: &'static [KernelDef; 4] = &[
        QuantizedConv::<O, FewChannels>::DEF,
        QuantizedConv::<O, ChannelsLast>::DEF,
        Self::DEF,
        Self::DEF.on(Core::DSP_V68),
    ];
}

/// CPU and DSP kernel of the operator `O` for images in the layout `L`.
pub(super) struct QuantizedConv<O, L> {
    marker: PhantomData<fn() -> (O, L)>,
    plan: QuantizedConvPlan,
    filters: Filters,
    /// Whether outputs are the i32 sums, without requantization.
    has_sums: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl<O: IntegerConv, L: Layout> Kernel for QuantizedConv<O, L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let w = O::PORTS.w;
        let x = L::PORTS.described(&cx.input(X)?)?;
        let conv = Conv::read_as(O::DIRECTION, cx, &x, &cx.input(w)?)?;
        let output = cx.output(0)?.dtype();
        let plan = of_type!(cx.input(X)?.dtype(), [U8 = u8, I8 = i8], A => {
            of_type!(output, [U8 = u8, I8 = i8, I32 = i32], C => {
                QuantizedConvPlan::new::<A, C>(&conv, L::PORTS)
            })
        })??;
        let plan = plan.ok_or_else(too_large)?;
        let filters = Filters::read(cx, &O::PORTS, &conv, &plan)?;
        // Checked last, so that errors of the node itself are reported first.
        L::check(conv.groups * conv.inputs)?;
        let run = of_type!(cx.input(X)?.dtype(), [U8 = u8, I8 = i8], A => {
            of_type!(output, [U8 = u8, I8 = i8, I32 = i32], C => execute::<O, L, A, C>)
        })??;
        cx.work(plan.work())?;
        let has_sums = output == Some(DType::I32);
        Ok(Self { marker: PhantomData, plan, filters, has_sums, run })
    }

    fn workspace(&self) -> Workspace {
        let ScratchLens { values, bordered, padding, phases, unconverted } =
            self.plan.scratch_lens();
        let images = Workspace::for_elements::<u8>(values).and::<u8>(bordered).and::<u8>(padding);
        let images = if self.has_sums {
            images.and::<i32>(phases).and::<i32>(unconverted)
        } else {
            images.and::<u8>(phases).and::<u8>(unconverted)
        };
        self.filters.workspace(images).and::<i32>(self.repeated_bias())
    }

    fn needs(&self, _: InputShapes<'_>) -> Result<Needs, Error> {
        let geometry = Workspace::for_elements::<u32>(self.plan.table_len());
        Ok(Needs { scratch: self.workspace(), geometry })
    }

    fn prepare(
        &self,
        _: InputShapes<'_>,
        mut geometry: udo_api::Scratch<'_>,
    ) -> Result<(), ExecError> {
        let is_filled = self.plan.fill(geometry.take(self.plan.table_len())?);
        is_filled.then_some(()).ok_or(ExecError::new(Status::BAD_VALUE))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<O, L> QuantizedConv<O, L> {
    /// Returns the scratch elements for the bias, if the plan needs it repeated for several pixels.
    fn repeated_bias(&self) -> usize {
        let repeats = self.plan.repeats();
        if self.filters.has_bias && repeats > 1 { self.filters.channels * repeats } else { 0 }
    }
}

/// Returns the error for a convolution without a plan.
pub(super) fn too_large() -> Error {
    Error::new(format!(
        "the convolution exceeds the address space, or a window has more than {MAX_K} products"
    ))
}

fn execute<O: IntegerConv, L: Layout, A: QuantizedInput, C: QuantizedOutput>(
    kernel: &QuantizedConv<O, L>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let ConvPorts { x_zero, y_zero, .. } = O::PORTS;
    let Io { inputs, mut outputs, mut scratch, parallel, packed, mut geometry } = io;
    let lens = kernel.plan.scratch_lens();
    let images = Scratch {
        values: scratch.take(lens.values)?,
        bordered: scratch.take(lens.bordered)?,
        padding: scratch.take(lens.padding)?,
        phases: scratch.take::<C>(lens.phases)?,
        unconverted: scratch.take::<C>(lens.unconverted)?,
    };
    let filters = kernel.filters.take(&inputs, &mut scratch, &packed)?;
    let repeated = scratch.take::<i32>(kernel.repeated_bias())?;
    let bias = filters.bias;
    repeated.iter_mut().zip(bias.iter().cycle()).for_each(|(to, &bias)| *to = bias);
    let operands = Operands {
        x: inputs.get::<A>(X)?,
        x_zero: first(&inputs, x_zero, A::default())?,
        packed: filters.packed,
        table: geometry.take(kernel.plan.table_len())?,
        w_zeros: filters.zeros,
        bias: if repeated.is_empty() { bias } else { repeated },
        scales: if kernel.has_sums { &[] } else { filters.scales },
        y: outputs.take_strided::<C>(0)?,
        y_zero: first(&inputs, y_zero, C::default())?,
        scratch: images,
    };
    kernel.plan.run(parallel, operands)
}
