//! Convolution of values of up to 16 bits, as one 8-bit convolution per plane of bytes (see `byte_planes.rs`). It also
//! defines the operators that have both this kernel and the 8-bit one.

use std::marker::PhantomData;

use udo_api::{
    Error, ExecError, FinalizeCx, InputShapes, Io, Kernel, KernelDef, Needs, PortRule, Status,
    Workspace, input, output,
};

use super::filters::Filters;
use super::integer::{IntegerConv, QuantizedConv, X, too_large};
use super::{Conv, Operands, QuantizedConvPlan, Scratch, ScratchLens};
use crate::Def;
use crate::family::layout::{ChannelsLast, ChannelsSecond, FewChannels, Layout};
use crate::family::quantized::byte_planes::{self, BytePlanes, Channels, PlaneSums, UP_TO_16_BITS};
use crate::family::quantized::{VALUES, fixed_point};

/// Defines the operator `O` of 8- or 16-bit values. The host runs the first kernel that accepts a node. The 8-bit
/// kernels come first, so `WideConv` only runs nodes with 16-bit values.
pub(crate) const fn quantized_conv<O: IntegerConv>() -> Def {
    Def::new::<O>(WideConv::<O, ChannelsSecond>::ALL)
}

impl<O: IntegerConv, L: Layout> WideConv<O, L> {
    const RULES: &'static [PortRule] = &L::PORTS.apply([
        input(X as u16, UP_TO_16_BITS),
        input(O::PORTS.w as u16, VALUES),
        output(0, UP_TO_16_BITS),
    ]);
    const DEF: KernelDef = KernelDef::new::<Self>(O::NAME, udo_api::Core::CPU).ports(Self::RULES);
}

impl<O: IntegerConv> WideConv<O, ChannelsSecond> {
    const ALL: &'static [KernelDef] = &{
        let [few_channels, channels_last, channels_second, dsp] =
            *QuantizedConv::<O, ChannelsSecond>::ALL;
        let wide_few = WideConv::<O, FewChannels>::DEF;
        let wide_last = WideConv::<O, ChannelsLast>::DEF;
        let [wide_second, wide_dsp] = fixed_point(Self::DEF);
        [
            few_channels,
            channels_last,
            channels_second,
            dsp,
            wide_few,
            wide_last,
            wide_second,
            wide_dsp,
        ]
    };
}

/// Kernel of the operator `O` for 16-bit values and images in the layout `L`.
struct WideConv<O, L> {
    marker: PhantomData<fn() -> (O, L)>,
    /// Convolves one plane of bytes to i32 sums.
    plan: QuantizedConvPlan,
    filters: Filters,
    planes: BytePlanes,
    /// Elements of one channel of one output image.
    pixels: usize,
    /// Elements of the whole output.
    len: usize,
}

impl<O: IntegerConv, L: Layout> Kernel for WideConv<O, L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = L::PORTS.described(&cx.input(X)?)?;
        let conv = Conv::read_as(O::DIRECTION, cx, &x, &cx.input(O::PORTS.w)?)?;
        let plan = QuantizedConvPlan::new::<u8, i32>(&conv, L::PORTS).ok_or_else(too_large)?;
        let filters = Filters::read(cx, &O::PORTS, &conv, &plan)?;
        let planes = BytePlanes::new(&x)?;
        L::check(conv.groups * conv.inputs)?;
        // Each plane costs one 8-bit convolution.
        for _ in 0..planes.count() {
            cx.work(plan.work())?;
        }
        let len = cx.output(0)?.len();
        let pixels = len.checked_div(conv.batch * filters.channels).unwrap_or(0);
        Ok(Self { marker: PhantomData, plan, filters, planes, pixels, len })
    }

    fn workspace(&self) -> Workspace {
        let ScratchLens { values, bordered, padding, phases, unconverted } =
            self.plan.scratch_lens();
        let images = Workspace::for_elements::<u8>(values).and::<u8>(bordered).and::<u8>(padding);
        let images = images.and::<i32>(phases).and::<i32>(unconverted);
        let filters = self.filters.workspace(images);
        filters
            .and::<u8>(self.planes.scratch_len())
            .and::<i32>(self.high_len())
            .and::<i32>(self.len)
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
        let Io { inputs, mut outputs, mut scratch, parallel, packed, mut geometry } = io;
        let lens = self.plan.scratch_lens();
        let mut images = Scratch {
            values: scratch.take(lens.values)?,
            bordered: scratch.take(lens.bordered)?,
            padding: scratch.take(lens.padding)?,
            phases: scratch.take::<i32>(lens.phases)?,
            unconverted: scratch.take::<i32>(lens.unconverted)?,
        };
        let filters = self.filters.take(&inputs, &mut scratch, &packed)?;
        let bytes = scratch.take::<u8>(self.planes.scratch_len())?;
        let high = scratch.take::<i32>(self.high_len())?;
        let low = scratch.take::<i32>(self.len)?;
        let table = geometry.take(self.plan.table_len())?;
        let planes = self.planes.take_apart(&inputs, [X, O::PORTS.x_zero], parallel, bytes)?;
        for ((x, x_zero), sums) in [(planes.high, &mut *high), (planes.low, &mut *low)] {
            if sums.is_empty() {
                continue;
            }
            let operands = Operands {
                x,
                x_zero,
                packed: filters.packed,
                table,
                w_zeros: filters.zeros,
                bias: &[],
                scales: &[],
                y: (sums, self.filters.channels),
                y_zero: 0,
                scratch: images.again(),
            };
            self.plan.run(parallel, operands)?;
        }
        let channels = Channels {
            bias: filters.bias,
            scales: &filters.scales[..self.filters.channels],
            run: if L::PORTS.output { 1 } else { self.pixels },
        };
        let sums = PlaneSums { high, low };
        byte_planes::store(&inputs, &mut outputs, parallel, O::PORTS.y_zero, (sums, channels))
    }
}

impl<O, L> WideConv<O, L> {
    /// Returns the number of sums of the high plane.
    fn high_len(&self) -> usize {
        if self.planes.count() > 1 { self.len } else { 0 }
    }
}
