//! Convolutions and transposed convolutions, float and quantized: parameters and extents. The files below choose an
//! algorithm (`plan`), pack the weights (`packing`) and define the kernels.

pub(crate) mod deformed;
mod filters;
mod float;
mod gpu;
mod images;
mod integer;
mod packing;
mod plain;
mod plan;
mod quantized;
#[cfg(test)]
mod tests;
mod wide;

use udo_api::{DType, Dim, Error, InferCx, Node, Param, Shape, TensorDesc, Value};

use crate::family::window::{Rounding, Window};

pub(crate) use filters::ConvPorts;
pub(crate) use float::{FloatConv, float_conv};
pub(crate) use images::Images;
pub(crate) use integer::{IntegerConv, integer_conv};
use packing::{F32Packing, QuantizedPacking};
use plan::{ConvPlan, Weights};
use quantized::{
    Operands, QuantizedConvPlan, QuantizedInput, QuantizedOutput, Scratch, ScratchLens, signed,
};
pub(crate) use wide::quantized_conv;

/// The parameters of every convolution.
pub(crate) const PARAMS: &[Param] = &[
    Param::text("auto_pad").default(Value::text("NOTSET")),
    Param::tensor("dilations", DType::I64).optional(),
    Param::scalar("group", DType::I64).default(Value::int(1)),
    Param::tensor("kernel_shape", DType::I64).optional(),
    Param::tensor("pads", DType::I64).optional(),
    Param::tensor("strides", DType::I64).optional(),
];

/// The parameters of every transposed convolution.
pub(crate) const TRANSPOSED_PARAMS: &[Param] = &[
    Param::text("auto_pad").default(Value::text("NOTSET")),
    Param::tensor("dilations", DType::I64).optional(),
    Param::scalar("group", DType::I64).default(Value::int(1)),
    Param::tensor("kernel_shape", DType::I64).optional(),
    Param::tensor("output_padding", DType::I64).optional(),
    Param::tensor("output_shape", DType::I64).optional(),
    Param::tensor("pads", DType::I64).optional(),
    Param::tensor("strides", DType::I64).optional(),
];

/// The images that windows slide over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Over the input: a convolution.
    Forward,
    /// Over the output: a transposed convolution.
    Transposed,
}

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv {
    pub(crate) direction: Direction,
    pub(crate) window: Window,
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    /// Input channels of a group.
    pub(crate) inputs: usize,
    /// Output channels of a group.
    pub(crate) outputs: usize,
    /// Whether image extents are open. Other plans of the model may then have images of another size, and share the
    /// packed weights with this one.
    pub(crate) has_open_images: bool,
}

/// Returns whether the node has a bias, and checks its length.
fn has_bias(node: &Node<'_>, conv: &Conv) -> Result<bool, Error> {
    let channels = conv.groups * conv.outputs;
    if node.has_input(2) && node.input(2)?.shape() != [channels] {
        return Err(Error::new(format!("input 2 is {}, expected [{channels}]", node.input(2)?)));
    }
    Ok(node.has_input(2))
}

/// Returns the output's shape for input `x` and weights `w`.
pub(crate) fn infer_shape(
    direction: Direction,
    cx: &InferCx<'_>,
    x: usize,
    w: usize,
) -> Result<Shape, Error> {
    let (x, w) = (cx.input(x)?, cx.input(w)?);
    output_shape(&Conv::read_as(direction, cx, &x, &w)?, &x)
}

fn output_shape(conv: &Conv, x: &TensorDesc) -> Result<Shape, Error> {
    let channels = conv.groups.checked_mul(conv.outputs);
    let channels = channels.ok_or_else(|| Error::new("the channels are beyond memory"))?;
    conv.window.output_shape(x, Dim::Fixed(channels))
}

impl Conv {
    /// Reads the parameters of a convolution of `x` with weights `w`.
    pub(crate) fn read(node: &Node<'_>, x: &TensorDesc, w: &TensorDesc) -> Result<Self, Error> {
        Self::read_as(Direction::Forward, node, x, w)
    }

    /// Reads the parameters of a transposed convolution.
    pub(crate) fn read_transposed(
        node: &Node<'_>,
        x: &TensorDesc,
        w: &TensorDesc,
    ) -> Result<Self, Error> {
        Self::read_as(Direction::Transposed, node, x, w)
    }

    /// Reads the parameters of a convolution in the given direction.
    pub(crate) fn read_as(
        direction: Direction,
        node: &Node<'_>,
        x: &TensorDesc,
        w: &TensorDesc,
    ) -> Result<Self, Error> {
        let wrong = |what: &str| Error::new(format!("input is {x}, weights are {w}: {what}"));
        let (&[batch, channels, ..], &[first, second, ref kernel @ ..]) = (x.shape(), w.shape())
        else {
            return Err(wrong("expected rank 3 to 5"));
        };
        if node.has_param("kernel_shape") {
            let declared = node.ints("kernel_shape")?;
            if !declared.iter().copied().eq(kernel.iter().map(|&k| k as i64)) {
                return Err(wrong(&format!("parameter \"kernel_shape\" is {declared:?}")));
            }
        }
        let groups = usize::try_from(node.int("group")?).unwrap_or(0);
        // In weights, the first axis has the channels of all groups, the second those of one group.
        let (filter_channels, inputs, outputs) = match direction {
            Direction::Forward => (first, Some(second), first.checked_div(groups)),
            Direction::Transposed => (first, first.checked_div(groups), Some(second)),
        };
        let (Some(inputs), Some(outputs)) = (inputs, outputs) else {
            return Err(wrong(&format!("the channels do not fit {groups} groups")));
        };
        if filter_channels % groups != 0 || inputs.checked_mul(groups) != Some(channels) {
            return Err(wrong(&format!("the channels do not fit {groups} groups")));
        }
        let window = match direction {
            Direction::Forward => Window::read(node, x, kernel, Rounding::Floor)?,
            Direction::Transposed => Window::transposed(node, x, kernel)?,
        };
        let has_open_images =
            x.full_shape().iter().skip(2).any(|dim| !matches!(dim, Dim::Fixed(_)));
        Ok(Self { direction, window, batch, groups, inputs, outputs, has_open_images })
    }

    /// Whether this is a depthwise convolution, with windows over the input.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.direction == Direction::Forward && self.inputs == 1 && self.groups > 1
    }

    /// Returns the images on both sides; `None` if sizes overflow.
    pub(crate) fn images(&self) -> Option<Images> {
        let window = self.window.on_pixels();
        let channels =
            [self.groups.checked_mul(self.inputs)?, self.groups.checked_mul(self.outputs)?];
        let pixels = [window.input_len()?, window.rows()?];
        let lines = window.output[0] * window.output[1];
        let taps = window.taps()?;
        // A window slides over one position of the smaller images; each contributes all filter elements.
        let positions = match self.direction {
            Direction::Forward => pixels[1],
            Direction::Transposed => pixels[0],
        };
        let work =
            positions.checked_mul(channels[1])?.checked_mul(self.inputs.checked_mul(taps)?)?;
        Some(Images { window, batch: self.batch, channels, pixels, lines, work })
    }
}
