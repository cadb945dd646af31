//! The weights of a convolution of quantized values: packed, with their scales, zero points and bias.

use udo_api::{
    DType, Element, Error, ExecError, FinalizeCx, Inputs, Node, Packed, PackedConstants,
    QuantizedType, Scratch, Workspace,
};

use super::{Conv, Direction, QuantizedConvPlan, QuantizedPacking, signed};
use crate::family::quantized::first;

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

/// Where a convolution's weights are, and how their numbers lie.
pub(super) struct Filters {
    ports: &'static ConvPorts,
    recipe: QuantizedPacking,
    packed_len: usize,
    /// Output channels.
    pub(super) channels: usize,
    /// Columns of sums.
    columns: usize,
    /// Output channels that weights have scales and zero points for: those of a group, where weights have them so.
    own: usize,
    /// Absent where the weights come with each run.
    weights: Option<Packed<i8>>,
    weights_len: usize,
    weight_type: Option<DType>,
    /// How far apart the weights' scales and zero points lie: 0 where one serves all channels.
    scale_step: usize,
    zero_step: usize,
    pub(super) has_bias: bool,
}

/// What a run reads of them.
pub(super) struct FilterNumbers<'a> {
    pub(super) packed: &'a [i8],
    /// One for each column.
    pub(super) zeros: &'a [i8],
    pub(super) scales: &'a [f32],
    /// One for each channel, or none.
    pub(super) bias: &'a [i32],
}

impl Filters {
    /// Reads the weights of a node whose ports these are, and packs those that are constant.
    pub(super) fn read(
        cx: &FinalizeCx<'_>,
        ports: &'static ConvPorts,
        conv: &Conv,
        plan: &QuantizedConvPlan,
    ) -> Result<Self, Error> {
        let ConvPorts { x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias } = *ports;
        let channels = conv.groups * conv.outputs;
        let own = match conv.direction {
            Direction::Forward => channels,
            Direction::Transposed => conv.outputs,
        };
        for port in [x_scale, x_zero, y_scale, y_zero] {
            per_channel(cx, port, 1)?;
        }
        for (zero, of) in [(x_zero, 0), (w_zero, w)] {
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
        let weight_type = cx.input(w)?.dtype();
        let weights = of_type!(weight_type, [U8 = u8, I8 = i8], T => pack::<T>(cx, w, plan))??;
        Ok(Self {
            ports,
            recipe: plan.recipe(),
            packed_len: plan.packed_len(),
            channels,
            columns: channels * plan.repeats(),
            own,
            weights,
            weights_len: cx.input(w)?.len(),
            weight_type,
            scale_step,
            zero_step,
            has_bias,
        })
    }

    /// Adds the scratch of a run to that which is taken before it.
    pub(super) fn workspace(&self, before: Workspace) -> Workspace {
        let [signed, packed] = self.packing_lens();
        let columns = before.and::<f32>(self.columns).and::<i8>(self.columns);
        columns.and::<i8>(signed).and::<i8>(packed)
    }

    /// The numbers of a run, and its weights.
    pub(super) fn take<'a>(
        &self,
        inputs: &Inputs<'a>,
        scratch: &mut Scratch<'a>,
        packed: &PackedConstants<'a>,
    ) -> Result<FilterNumbers<'a>, ExecError> {
        match self.weight_type {
            Some(DType::U8) => self.take_as::<u8>(inputs, scratch, packed),
            _ => self.take_as::<i8>(inputs, scratch, packed),
        }
    }

    fn take_as<'a, B: QuantizedType>(
        &self,
        inputs: &Inputs<'a>,
        scratch: &mut Scratch<'a>,
        packed: &PackedConstants<'a>,
    ) -> Result<FilterNumbers<'a>, ExecError> {
        let ConvPorts { x_scale, w, w_scale, w_zero, y_scale, bias, .. } = *self.ports;
        let scales = scratch.take::<f32>(self.columns)?;
        let zeros = scratch.take::<i8>(self.columns)?;
        let [signed_len, packed_len] = self.packing_lens();
        let (unpacked, own) = (scratch.take::<i8>(signed_len)?, scratch.take::<i8>(packed_len)?);
        let weights = if let Some(weights) = self.weights {
            packed.get(weights)?
        } else {
            self.recipe.pack(inputs.get::<B>(w)?, unpacked, own);
            &*own
        };
        let (x_scale, y_scale) = (first(inputs, x_scale, 1f32)?, first(inputs, y_scale, 1f32)?);
        let no_zero = [B::default()];
        let (w_scales, w_zeros) = (all(inputs, w_scale, &[1f32])?, all(inputs, w_zero, &no_zero)?);
        for (column, (scale, zero)) in scales.iter_mut().zip(&mut *zeros).enumerate() {
            let channel = column % self.own;
            *scale = x_scale * w_scales[channel * self.scale_step] / y_scale;
            *zero = signed(w_zeros[channel * self.zero_step]);
        }
        let bias = if self.has_bias { inputs.get::<i32>(bias)? } else { &[] };
        Ok(FilterNumbers { packed: weights, zeros, scales, bias })
    }

    /// Elements of scratch for weights that come with each run: made signed, and packed.
    fn packing_lens(&self) -> [usize; 2] {
        if self.weights.is_some() { [0; 2] } else { [self.weights_len, self.packed_len] }
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

/// The elements of an input, which the node may leave out.
fn all<'a, T: Element>(
    inputs: &Inputs<'a>,
    port: usize,
    none: &'a [T],
) -> Result<&'a [T], ExecError> {
    if inputs.has(port) { inputs.get::<T>(port) } else { Ok(none) }
}
