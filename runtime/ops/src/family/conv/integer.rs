//! The kernel of convolutions of 8-bit integers: what scales and zero points there are, and weights that are packed
//! once.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Element, Error, ExecError, FinalizeCx, InputShapes, Inputs, Io, Kernel, KernelDef,
    Needs, Node, Op, Packed, PortRule, QuantizedType, Status, Workspace, input, types,
};
use udo_simd::conv_u8::MAX_K;

use super::{
    Conv, Direction, Operands, QuantizedConvPlan, QuantizedInput, QuantizedOutput,
    QuantizedPacking, Scratch, ScratchLens, signed,
};
use crate::Def;
use crate::family::layout::{ChannelsLast, ChannelsSecond, FewChannels, Layout};
use crate::family::quantized::VALUES;

/// The images.
const X: usize = 0;

/// A port that an operator does not have.
const NONE: usize = usize::MAX;

/// Where an operator has what; what it has not is at a port beyond all.
pub(crate) struct ConvPorts {
    pub(crate) x_scale: usize,
    pub(crate) x_zero: usize,
    pub(crate) w: usize,
    pub(crate) w_scale: usize,
    pub(crate) w_zero: usize,
    pub(crate) y_scale: usize,
    pub(crate) y_zero: usize,
    pub(crate) bias: usize,
}

impl ConvPorts {
    /// Images and weights alone.
    pub(crate) const PLAIN: Self = Self {
        x_scale: NONE,
        x_zero: NONE,
        w: 1,
        w_scale: NONE,
        w_zero: NONE,
        y_scale: NONE,
        y_zero: NONE,
        bias: NONE,
    };
}

/// A convolution of 8-bit integers: where it has what.
pub(crate) trait IntegerConv: Op + Send + Sync + 'static {
    const NAME: &'static str;
    const PORTS: ConvPorts;
    const DIRECTION: Direction = Direction::Forward;
}

/// The operator `O` with its kernels.
pub(crate) const fn integer_conv<O: IntegerConv>() -> Def {
    Def::of::<O>(QuantizedConv::<O, ChannelsSecond>::ALL)
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
    const ALL: &'static [KernelDef] = &[
        QuantizedConv::<O, FewChannels>::DEF,
        QuantizedConv::<O, ChannelsLast>::DEF,
        Self::DEF,
        Self::DEF.on(Core::DSP_V68),
    ];
}

struct QuantizedConv<O, L> {
    of: PhantomData<fn() -> (O, L)>,
    plan: QuantizedConvPlan,
    /// Output channels.
    channels: usize,
    /// Output channels that weights have scales and zero points for: those of a group, where weights have them so.
    own: usize,
    /// Absent where the weights come with each run.
    weights: Option<Packed<i8>>,
    weights_len: usize,
    /// How far apart the weights' scales and zero points lie: 0 where one serves all channels.
    scale_step: usize,
    zero_step: usize,
    has_bias: bool,
    /// Whether results are sums as they are.
    has_sums: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl<O: IntegerConv, L: Layout> Kernel for QuantizedConv<O, L> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let ConvPorts { x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias } = O::PORTS;
        let x = L::PORTS.described(&cx.input(X)?)?;
        let conv = Conv::read_as(O::DIRECTION, cx, &x, &cx.input(w)?)?;
        let channels = conv.groups * conv.outputs;
        let own = match O::DIRECTION {
            Direction::Forward => channels,
            Direction::Transposed => conv.outputs,
        };
        for port in [x_scale, x_zero, y_scale, y_zero] {
            per_channel(cx, port, 1)?;
        }
        for (zero, of) in [(x_zero, X), (w_zero, w)] {
            if cx.has_input(zero) && cx.input(zero)?.dtype() != cx.input(of)?.dtype() {
                return Err(Error::new("a zero point has another type than its quantized values"));
            }
        }
        let has_bias = cx.has_input(bias);
        if has_bias && cx.input(bias)?.len() != channels {
            let found = cx.input(bias)?;
            return Err(Error::new(format!("input {bias} is {found}, wanted [{channels}]")));
        }
        let (zero_step, scale_step) =
            (per_channel(cx, w_zero, own)?, per_channel(cx, w_scale, own)?);
        let output = cx.output(0)?.dtype();
        let plan = of_type!(cx.input(X)?.dtype(), [U8 = u8, I8 = i8], A => {
            of_type!(output, [U8 = u8, I8 = i8, I32 = i32], C => {
                QuantizedConvPlan::of::<A, C>(&conv, L::PORTS)
            })
        })??;
        let plan = plan.ok_or_else(|| {
            Error::new(format!(
                "the convolution is larger than memory, or a window has more than {MAX_K} products"
            ))
        })?;
        // Last, so that what is wrong with the node is said first.
        L::check(conv.groups * conv.inputs)?;
        let weight_type = cx.input(w)?.dtype();
        let weights = of_type!(weight_type, [U8 = u8, I8 = i8], T => pack::<T>(cx, w, &plan))??;
        let run = of_type!(cx.input(X)?.dtype(), [U8 = u8, I8 = i8], A => {
            of_type!(weight_type, [U8 = u8, I8 = i8], B => {
                of_type!(output, [U8 = u8, I8 = i8, I32 = i32], C => execute::<O, L, A, B, C>)
            })
        })???;
        let weights_len = cx.input(w)?.len();
        cx.work(plan.work())?;
        Ok(Self {
            of: PhantomData,
            plan,
            channels,
            own,
            weights,
            weights_len,
            scale_step,
            zero_step,
            has_bias,
            has_sums: output == Some(DType::I32),
            run,
        })
    }

    fn workspace(&self) -> Workspace {
        let ScratchLens { values, bordered, padding, phases, unconverted } =
            self.plan.scratch_lens();
        let images = Workspace::of::<u8>(values).and::<u8>(bordered).and::<u8>(padding);
        let images = if self.has_sums {
            images.and::<i32>(phases).and::<i32>(unconverted)
        } else {
            images.and::<u8>(phases).and::<u8>(unconverted)
        };
        let len = self.columns();
        let columns = images.and::<f32>(len).and::<i8>(len).and::<i32>(self.repeated_bias());
        let [signed, packed] = self.packing_lens();
        columns.and::<i8>(signed).and::<i8>(packed)
    }

    fn needs(&self, _: InputShapes<'_>) -> Result<Needs, Error> {
        let geometry = Workspace::of::<u32>(self.plan.table_len());
        Ok(Needs { scratch: self.workspace(), geometry })
    }

    fn prepare(
        &self,
        _: InputShapes<'_>,
        mut geometry: udo_api::Scratch<'_>,
    ) -> Result<(), ExecError> {
        let is_filled = self.plan.fill(geometry.take(self.plan.table_len())?);
        is_filled.then_some(()).ok_or(ExecError::of(Status::BAD_VALUE))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<O, L> QuantizedConv<O, L> {
    /// Columns of sums.
    fn columns(&self) -> usize {
        self.channels * self.plan.repeats()
    }

    /// Elements of scratch for a bias that is repeated.
    fn repeated_bias(&self) -> usize {
        if self.has_bias && self.plan.repeats() > 1 { self.columns() } else { 0 }
    }

    /// Elements of scratch for weights that come with each run: made signed, and packed.
    fn packing_lens(&self) -> [usize; 2] {
        if self.weights.is_some() { [0; 2] } else { [self.weights_len, self.plan.packed_len()] }
    }
}

/// The step from one channel's element of input `port` to the next.
fn per_channel(node: &Node<'_>, port: usize, channels: usize) -> Result<usize, Error> {
    if !node.has_input(port) {
        return Ok(0);
    }
    match node.input(port)?.len() {
        1 => Ok(0),
        len if len == channels => Ok(1),
        _ => {
            let found = node.input(port)?;
            Err(Error::new(format!("input {port} is {found}, wanted 1 or {channels} elements")))
        }
    }
}

fn pack<T: QuantizedType>(
    cx: &FinalizeCx<'_>,
    w: usize,
    plan: &QuantizedConvPlan,
) -> Result<Option<Packed<i8>>, Error> {
    if cx.constant::<T>(w)?.is_none() {
        return Ok(None);
    }
    let (recipe, len) = (plan.recipe().numbers(), plan.packed_len());
    Ok(Some(cx.pack(&[w], &recipe, len, QuantizedPacking::fill::<T>)?))
}

/// The only element of an input, which the node may leave out.
fn first<T: Element>(inputs: &Inputs<'_>, port: usize, none: T) -> Result<T, ExecError> {
    if !inputs.has(port) {
        return Ok(none);
    }
    inputs.get::<T>(port)?.first().copied().ok_or(ExecError::of(Status::BAD_CALL))
}

/// The elements of an input, which the node may leave out.
fn all<'a, T: Element>(
    inputs: &Inputs<'a>,
    port: usize,
    none: &'a [T],
) -> Result<&'a [T], ExecError> {
    if inputs.has(port) { inputs.get::<T>(port) } else { Ok(none) }
}

fn execute<O: IntegerConv, L: Layout, A: QuantizedInput, B: QuantizedType, C: QuantizedOutput>(
    kernel: &QuantizedConv<O, L>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    let ConvPorts { x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias } = O::PORTS;
    let Io { inputs, mut outputs, mut scratch, parallel, packed, mut geometry } = io;
    let lens = kernel.plan.scratch_lens();
    let images = Scratch {
        values: scratch.take(lens.values)?,
        bordered: scratch.take(lens.bordered)?,
        padding: scratch.take(lens.padding)?,
        phases: scratch.take::<C>(lens.phases)?,
        unconverted: scratch.take::<C>(lens.unconverted)?,
    };
    let scales = scratch.take::<f32>(kernel.columns())?;
    let w_zeros = scratch.take::<i8>(kernel.columns())?;
    let repeated = scratch.take::<i32>(kernel.repeated_bias())?;
    let [signed_len, packed_len] = kernel.packing_lens();
    let (unpacked, own) = (scratch.take::<i8>(signed_len)?, scratch.take::<i8>(packed_len)?);
    let weights = if let Some(weights) = kernel.weights {
        packed.get(weights)?
    } else {
        kernel.plan.recipe().pack(inputs.get::<B>(w)?, unpacked, own);
        &*own
    };
    let (x_scale, y_scale) = (first(&inputs, x_scale, 1f32)?, first(&inputs, y_scale, 1f32)?);
    let no_zero = [B::default()];
    let (w_scales, zeros) = (all(&inputs, w_scale, &[1f32])?, all(&inputs, w_zero, &no_zero)?);
    for (column, (scale, zero)) in scales.iter_mut().zip(&mut *w_zeros).enumerate() {
        let channel = column % kernel.own;
        *scale = x_scale * w_scales[channel * kernel.scale_step] / y_scale;
        *zero = signed(zeros[channel * kernel.zero_step]);
    }
    let bias = if kernel.has_bias { inputs.get::<i32>(bias)? } else { &[] };
    repeated.iter_mut().zip(bias.iter().cycle()).for_each(|(to, &bias)| *to = bias);
    let operands = Operands {
        x: inputs.get::<A>(X)?,
        x_zero: first(&inputs, x_zero, A::default())?,
        packed: weights,
        table: geometry.take(kernel.plan.table_len())?,
        w_zeros,
        bias: if repeated.is_empty() { bias } else { repeated },
        scales,
        y: outputs.take_strided::<C>(0)?,
        y_zero: first(&inputs, y_zero, C::default())?,
        scratch: images,
    };
    kernel.plan.run(parallel, operands)
}
