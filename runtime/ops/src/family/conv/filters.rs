//! The weights of a quantized convolution: packed, with scales, zero points and bias.

use udo_api::{
    DType, Element, Error, ExecError, FinalizeCx, Inputs, Node, Packed, PackedConstants,
    QuantizedType, Scratch, Workspace,
};

use super::{Conv, Direction, QuantizedConvPlan, QuantizedPacking, signed};
use crate::family::quantized::first;

/// A port that an operator does not have.
const NONE: usize = usize::MAX;

/// The input ports of a quantized convolution; [`NONE`] for an input that the operator lacks.
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
    /// Only images and weights.
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

/// A convolution's weights, and the layout of their scales and zero points.
pub(super) struct Filters {
    ports: &'static ConvPorts,
    recipe: QuantizedPacking,
    packed_len: usize,
    /// Output channels.
    pub(super) channels: usize,
    /// Columns of the matrix product.
    columns: usize,
    /// Output channels with a scale and zero point: all, or those of one group for transposed convolutions.
    scaled_channels: usize,
    /// Packed weights; `None` if they are not constant.
    weights: Option<Packed<i8>>,
    weights_len: usize,
    weight_type: Option<DType>,
    /// Strides of the weights' scales and zero points; 0 for scalars.
    scale_step: usize,
    zero_step: usize,
    pub(super) has_bias: bool,
}

/// Weights and parameters of a run.
pub(super) struct FilterParameters<'a> {
    pub(super) packed: &'a [i8],
    /// One per column.
    pub(super) zeros: &'a [i8],
    pub(super) scales: &'a [f32],
    /// One per channel, or empty.
    pub(super) bias: &'a [i32],
}

impl Filters {
    /// Reads the weights of a node with these ports, and packs them if constant.
    pub(super) fn read(
        cx: &FinalizeCx<'_>,
        ports: &'static ConvPorts,
        conv: &Conv,
        plan: &QuantizedConvPlan,
    ) -> Result<Self, Error> {
        let ConvPorts { x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias } = *ports;
        let channels = conv.groups * conv.outputs;
        let scaled_channels = match conv.direction {
            Direction::Forward => channels,
            Direction::Transposed => conv.outputs,
        };
        for port in [x_scale, x_zero, y_scale, y_zero] {
            per_channel(cx, port, 1)?;
        }
        for (zero, values) in [(x_zero, 0), (w_zero, w)] {
            if cx.has_input(zero) && cx.input(zero)?.dtype() != cx.input(values)?.dtype() {
                return Err(Error::new(
                    "a zero point has a different type than its quantized values",
                ));
            }
        }
        let has_bias = cx.has_input(bias);
        if has_bias && cx.input(bias)?.len() != channels {
            let found = cx.input(bias)?;
            return Err(Error::new(format!("input {bias} is {found}, expected [{channels}]")));
        }
        let (zero_step, scale_step) =
            (per_channel(cx, w_zero, scaled_channels)?, per_channel(cx, w_scale, scaled_channels)?);
        let weight_type = cx.input(w)?.dtype();
        let weights = of_type!(weight_type, [U8 = u8, I8 = i8], T => pack::<T>(cx, w, plan))??;
        Ok(Self {
            ports,
            recipe: plan.recipe(),
            packed_len: plan.packed_len(),
            channels,
            columns: channels * plan.repeats(),
            scaled_channels,
            weights,
            weights_len: cx.input(w)?.len(),
            weight_type,
            scale_step,
            zero_step,
            has_bias,
        })
    }

    /// Adds the scratch memory to that of the caller, which comes first.
    pub(super) fn workspace(&self, caller: Workspace) -> Workspace {
        let [signed, packed] = self.packing_lens();
        let columns = caller.and::<f32>(self.columns).and::<i8>(self.columns);
        columns.and::<i8>(signed).and::<i8>(packed)
    }

    /// Returns weights and parameters of a run.
    pub(super) fn take<'a>(
        &self,
        inputs: &Inputs<'a>,
        scratch: &mut Scratch<'a>,
        packed: &PackedConstants<'a>,
    ) -> Result<FilterParameters<'a>, ExecError> {
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
    ) -> Result<FilterParameters<'a>, ExecError> {
        let ConvPorts { x_scale, w, w_scale, w_zero, y_scale, bias, .. } = *self.ports;
        let scales = scratch.take::<f32>(self.columns)?;
        let zeros = scratch.take::<i8>(self.columns)?;
        let [signed_len, packed_len] = self.packing_lens();
        let (unpacked, packed_in_run) =
            (scratch.take::<i8>(signed_len)?, scratch.take::<i8>(packed_len)?);
        let weights = if let Some(weights) = self.weights {
            packed.get(weights)?
        } else {
            self.recipe.pack(inputs.get::<B>(w)?, unpacked, packed_in_run);
            &*packed_in_run
        };
        let (x_scale, y_scale) = (first(inputs, x_scale, 1f32)?, first(inputs, y_scale, 1f32)?);
        let zero = [B::default()];
        let (w_scales, w_zeros) =
            (optional_input(inputs, w_scale, &[1f32])?, optional_input(inputs, w_zero, &zero)?);
        for (column, (scale, zero)) in scales.iter_mut().zip(&mut *zeros).enumerate() {
            let channel = column % self.scaled_channels;
            *scale = x_scale * w_scales[channel * self.scale_step] / y_scale;
            *zero = signed(w_zeros[channel * self.zero_step]);
        }
        let bias = if self.has_bias { inputs.get::<i32>(bias)? } else { &[] };
        Ok(FilterParameters { packed: weights, zeros, scales, bias })
    }

    /// Returns the scratch elements for weights that are not constant: sign-converted, and packed.
    fn packing_lens(&self) -> [usize; 2] {
        if self.weights.is_some() { [0; 2] } else { [self.weights_len, self.packed_len] }
    }
}

/// Returns the stride of input `port` between channels: 0 if it is absent or a scalar, 1 if it has an element per
/// channel.
fn per_channel(node: &Node<'_>, port: usize, channels: usize) -> Result<usize, Error> {
    if !node.has_input(port) {
        return Ok(0);
    }
    match node.input(port)?.len() {
        1 => Ok(0),
        len if len == channels => Ok(1),
        _ => {
            let found = node.input(port)?;
            Err(Error::new(format!("input {port} is {found}, expected 1 or {channels} elements")))
        }
    }
}

/// Packs the weights in input `w`, if they are constant.
fn pack<T: QuantizedType>(
    cx: &FinalizeCx<'_>,
    w: usize,
    plan: &QuantizedConvPlan,
) -> Result<Option<Packed<i8>>, Error> {
    if cx.constant::<T>(w)?.is_none() {
        return Ok(None);
    }
    let (recipe, len) = (plan.recipe().integers(), plan.packed_len());
    Ok(Some(cx.pack(&[w], &recipe, len, QuantizedPacking::fill::<T>)?))
}

/// Returns the elements of an optional input, or `default` if it is absent.
fn optional_input<'a, T: Element>(
    inputs: &Inputs<'a>,
    port: usize,
    default: &'a [T],
) -> Result<&'a [T], ExecError> {
    if inputs.has(port) { inputs.get::<T>(port) } else { Ok(default) }
}
