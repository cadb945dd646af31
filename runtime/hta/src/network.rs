//! Networks: layers on unsigned 8-bit tensors, with checked shapes. A [`Network`] is the input of the compiler.

/// A tensor of a network, as an index into [`Network::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// A quantization encoding: `real = scale * (value - zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoding {
    /// The difference between two neighbouring values.
    pub scale: f32,
    /// The quantized value that stands for 0.
    pub zero_point: u8,
}

/// A tensor of bytes.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// The name, for messages.
    pub name: String,
    /// Batch, height, width and channels.
    pub shape: [usize; 4],
    /// The encoding of its values.
    pub encoding: Encoding,
    /// The values of a constant tensor.
    pub values: Option<&'a [u8]>,
}

/// A sliding window over height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Kernel size: height, width.
    pub kernel: [usize; 2],
    /// Strides: down, across.
    pub strides: [usize; 2],
    /// Dilations: down, across.
    pub dilations: [usize; 2],
    /// Padding: top, left, bottom, right.
    pub pads: [usize; 4],
}

/// Weights and their zero points: one zero point for all output channels, or one for each channel.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Signed weights.
    I8 {
        /// The weights, by output channel.
        weights: &'a [i8],
        /// The zero points.
        zero_points: &'a [i8],
    },
    /// Unsigned weights.
    U8 {
        /// The weights, by output channel.
        weights: &'a [u8],
        /// The zero points.
        zero_points: &'a [u8],
    },
}

/// The weights of a layer, with scales and bias.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Shape `[outputs, channels, height, width]` for a convolution, `[outputs, height, width]` for a depthwise one,
    /// `[outputs, depth]` for a fully connected layer.
    pub values: Values<'a>,
    /// One scale for all output channels, or one for each channel.
    pub scales: &'a [f32],
    /// Empty, or one per output channel, in units of the input's scale times the weights' scale.
    pub bias: &'a [i32],
}

/// The divisor of an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The number of taps inside the image.
    Inside,
    /// The number of taps of the kernel.
    Kernel,
}

/// The operator of a layer, with its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// A convolution over all channels.
    Conv {
        /// The window.
        window: Window,
        /// The weights.
        weights: Weights<'a>,
    },
    /// A depthwise convolution, with one or several outputs per channel.
    Depthwise {
        /// The window.
        window: Window,
        /// The weights.
        weights: Weights<'a>,
    },
    /// The product of the flattened input and a matrix.
    FullyConnected {
        /// The matrix.
        weights: Weights<'a>,
    },
    /// The sum of two tensors; the second has the same shape, or one value per channel.
    Add,
    /// The product of two tensors; shapes as for `Add`.
    Mul,
    /// Concatenation along the channels, requantized to the output's encoding.
    Concat,
    /// The maximum of each window.
    MaxPool {
        /// The window.
        window: Window,
    },
    /// The mean of each window. A kernel of the image's size gives global pooling.
    AveragePool {
        /// The window.
        window: Window,
        /// The divisor.
        divisor: Divisor,
    },
    /// Maps each value through a table.
    Lookup {
        /// The table.
        table: &'a [u8; 256],
    },
    /// The same bytes as another shape.
    Reshape,
    /// Repeats each pixel down and across; the shapes determine how often.
    Resize,
    /// Softmax over the channels of each pixel.
    Softmax,
}

/// The operators, without their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Op::Conv`].
    Conv,
    /// [`Op::Depthwise`].
    Depthwise,
    /// [`Op::FullyConnected`].
    FullyConnected,
    /// [`Op::Add`].
    Add,
    /// [`Op::Mul`].
    Mul,
    /// [`Op::Concat`].
    Concat,
    /// [`Op::MaxPool`].
    MaxPool,
    /// [`Op::AveragePool`].
    AveragePool,
    /// [`Op::Lookup`].
    Lookup,
    /// [`Op::Reshape`].
    Reshape,
    /// [`Op::Resize`].
    Resize,
    /// [`Op::Softmax`].
    Softmax,
}

/// A layer: an operator with its inputs and output.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    /// The name, for messages.
    pub name: String,
    /// The operator.
    pub op: Op<'a>,
    /// The input tensors.
    pub inputs: Vec<TensorId>,
    /// The output tensor.
    pub output: TensorId,
}

/// A checked network, whose layers are in a valid order of execution.
#[derive(Clone, Debug)]
pub struct Network<'a> {
    pub(crate) tensors: Vec<Tensor<'a>>,
    pub(crate) layers: Vec<Layer<'a>>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// Inputs computed by the DSP.
    pub(crate) inner: Vec<TensorId>,
}

impl Kind {
    /// Returns the name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv => "Conv",
            Self::Depthwise => "Depthwise",
            Self::FullyConnected => "FullyConnected",
            Self::Add => "Add",
            Self::Mul => "Mul",
            Self::Concat => "Concat",
            Self::MaxPool => "MaxPool",
            Self::AveragePool => "AveragePool",
            Self::Lookup => "Lookup",
            Self::Reshape => "Reshape",
            Self::Resize => "Resize",
            Self::Softmax => "Softmax",
        }
    }
}

impl<'a> Op<'a> {
    /// Returns the operator without its parameters.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Conv { .. } => Kind::Conv,
            Self::Depthwise { .. } => Kind::Depthwise,
            Self::FullyConnected { .. } => Kind::FullyConnected,
            Self::Add => Kind::Add,
            Self::Mul => Kind::Mul,
            Self::Concat => Kind::Concat,
            Self::MaxPool { .. } => Kind::MaxPool,
            Self::AveragePool { .. } => Kind::AveragePool,
            Self::Lookup { .. } => Kind::Lookup,
            Self::Reshape => Kind::Reshape,
            Self::Resize => Kind::Resize,
            Self::Softmax => Kind::Softmax,
        }
    }

    /// Returns the window, if the operator has one.
    pub fn window(&self) -> Option<&Window> {
        match self {
            Self::Conv { window, .. }
            | Self::Depthwise { window, .. }
            | Self::MaxPool { window }
            | Self::AveragePool { window, .. } => Some(window),
            Self::FullyConnected { .. }
            | Self::Add
            | Self::Mul
            | Self::Concat
            | Self::Lookup { .. }
            | Self::Reshape
            | Self::Resize
            | Self::Softmax => None,
        }
    }

    /// Returns the weights, if the operator has some.
    pub fn weights(&self) -> Option<&Weights<'a>> {
        match self {
            Self::Conv { weights, .. }
            | Self::Depthwise { weights, .. }
            | Self::FullyConnected { weights } => Some(weights),
            Self::Add
            | Self::Mul
            | Self::Concat
            | Self::MaxPool { .. }
            | Self::AveragePool { .. }
            | Self::Lookup { .. }
            | Self::Reshape
            | Self::Resize
            | Self::Softmax => None,
        }
    }
}

impl Tensor<'_> {
    /// Returns the number of bytes, saturating at `usize::MAX`.
    pub fn len(&self) -> usize {
        self.shape.iter().fold(1, |len: usize, &extent| len.saturating_mul(extent))
    }

    /// Returns whether the tensor has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Window {
    /// A 1x1 window without strides or padding.
    pub const ONE: Self = Self { kernel: [1; 2], strides: [1; 2], dilations: [1; 2], pads: [0; 4] };

    /// Returns the number of taps of the kernel.
    pub fn taps(&self) -> usize {
        self.kernel[0].saturating_mul(self.kernel[1])
    }

    /// Returns the pixels along an axis that a window covers, including dilation gaps.
    pub(crate) fn reach(&self, axis: usize) -> usize {
        self.kernel[axis].saturating_sub(1).saturating_mul(self.dilations[axis]).saturating_add(1)
    }

    /// Returns the height and width of the output for an image of this size, or `None` if the window does not fit.
    pub fn output(&self, height: usize, width: usize) -> Option<[usize; 2]> {
        let along = |axis: usize, input: usize| {
            let padded = input.checked_add(self.pads[axis])?.checked_add(self.pads[axis + 2])?;
            padded.checked_sub(self.reach(axis))?.checked_div(self.strides[axis])?.checked_add(1)
        };
        Some([along(0, height)?, along(1, width)?])
    }
}

impl<'a> Network<'a> {
    /// Creates a network from tensors and layers in a valid order of execution.
    ///
    /// # Errors
    /// Returns an error for shapes that do not fit, layers that read a tensor before it is written, and invalid
    /// encodings.
    pub fn new(
        tensors: Vec<Tensor<'a>>,
        layers: Vec<Layer<'a>>,
        inputs: Vec<TensorId>,
        outputs: Vec<TensorId>,
    ) -> Result<Self, NetworkError> {
        let network = Self { tensors, layers, inputs, outputs, inner: Vec::new() };
        check(&network)?;
        Ok(network)
    }

    /// Marks the network as part of a larger one: inputs for which `is_inner` returns true are computed by the DSP in
    /// shared memory, and may have as many channels as any tensor.
    #[must_use]
    pub fn part(mut self, is_inner: impl Fn(TensorId) -> bool) -> Self {
        self.inner = self.inputs.iter().copied().filter(|&input| is_inner(input)).collect();
        self
    }

    /// Returns all tensors.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// Returns all layers.
    pub fn layers(&self) -> &[Layer<'a>] {
        &self.layers
    }

    /// Returns the tensors that the caller supplies.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }

    /// Returns the tensors that a run computes for the caller.
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }
}

/// An invalid network: the layer or tensor, and its fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {fault}")]
pub struct NetworkError {
    /// The layer or tensor.
    pub what: String,
    /// The fault.
    pub fault: String,
}

/// The fault of a layer or tensor, if any.
type Checked = Result<(), String>;

/// The most bytes of a tensor, since addresses have 32 bits.
const MAX_BYTES: usize = 1 << 31;

/// Checks the producers and consumers of all tensors, shapes, encodings and weights.
fn check(network: &Network<'_>) -> Result<(), NetworkError> {
    let Network { tensors, layers, inputs, outputs, .. } = network;
    for tensor in tensors {
        let what = || format!("tensor {:?}", tensor.name);
        check_tensor(tensor).map_err(|fault| NetworkError { what: what(), fault })?;
    }
    let mut is_defined: Vec<bool> = tensors.iter().map(|tensor| tensor.values.is_some()).collect();
    let mut define = |id: TensorId| match is_defined.get_mut(id.0) {
        None => Err(format!("is tensor {}, but there are {}", id.0, tensors.len())),
        Some(true) => Err("is defined twice or constant".to_owned()),
        Some(defined) => {
            *defined = true;
            Ok(())
        }
    };
    let name = |id: TensorId| tensors.get(id.0).map_or("?", |tensor| &tensor.name);
    for &id in inputs {
        let what = || format!("input {:?}", name(id));
        define(id).map_err(|fault| NetworkError { what: what(), fault })?;
    }
    let is_constant = |id: usize| tensors.get(id).is_some_and(|tensor| tensor.values.is_some());
    // By tensor: whether layers may read it.
    let mut is_known = vec![false; tensors.len()];
    for (id, is_known) in is_known.iter_mut().enumerate() {
        *is_known = inputs.contains(&TensorId(id)) || is_constant(id);
    }
    for layer in layers {
        let what = || format!("layer {:?} ({})", layer.name, layer.op.kind().name());
        let error = |fault| NetworkError { what: what(), fault };
        for &id in &layer.inputs {
            if is_known.get(id.0) != Some(&true) {
                let fault = format!("reads tensor {:?}, which no earlier layer computes", name(id));
                return Err(error(fault));
            }
        }
        define(layer.output)
            .map_err(|fault| error(format!("computes {:?}, which {fault}", name(layer.output))))?;
        if let Some(is_known) = is_known.get_mut(layer.output.0) {
            *is_known = true;
        }
        check_layer(layer, tensors).map_err(error)?;
    }
    for (index, &id) in outputs.iter().enumerate() {
        let is_computed = layers.iter().any(|layer| layer.output == id);
        if !is_computed || outputs.iter().take(index).any(|other| *other == id) {
            let fault = "is not computed by any layer, or is listed twice".to_owned();
            return Err(NetworkError { what: format!("output {:?}", name(id)), fault });
        }
    }
    if outputs.is_empty() {
        let fault = "has no outputs".to_owned();
        return Err(NetworkError { what: "the network".to_owned(), fault });
    }
    Ok(())
}

fn check_tensor(tensor: &Tensor<'_>) -> Checked {
    let len = tensor.len();
    if len == 0 || len > MAX_BYTES {
        return Err(format!("is {}, expected 1 to {MAX_BYTES} bytes", shape(&tensor.shape)));
    }
    if let Some(values) = tensor.values.filter(|values| values.len() != len) {
        let found = values.len();
        return Err(format!("is {}, but has {found} values", shape(&tensor.shape)));
    }
    check_positive("scale", tensor.encoding.scale)
}

fn check_layer(layer: &Layer<'_>, tensors: &[Tensor<'_>]) -> Checked {
    let inputs: Vec<_> = layer.inputs.iter().filter_map(|id| tensors.get(id.0)).collect();
    let count = match layer.op {
        Op::Add | Op::Mul => 2..=2,
        Op::Concat => 1..=usize::MAX,
        Op::Conv { .. }
        | Op::Depthwise { .. }
        | Op::FullyConnected { .. }
        | Op::MaxPool { .. }
        | Op::AveragePool { .. }
        | Op::Lookup { .. }
        | Op::Reshape
        | Op::Resize
        | Op::Softmax => 1..=1,
    };
    if !count.contains(&inputs.len()) {
        return Err(format!("has {} inputs, expected {}", inputs.len(), count.start()));
    }
    let (Some(&x), Some(y)) = (inputs.first(), tensors.get(layer.output.0)) else {
        return Err("has no input or output".to_owned());
    };
    if let Some(window) = layer.op.window() {
        check_window(window)?;
    }
    let expected = output_shape(&layer.op, &inputs, x, y)?;
    if y.shape != expected {
        return Err(format!(
            "computes {}, but its output is {}",
            shape(&expected),
            shape(&y.shape)
        ));
    }
    match &layer.op {
        Op::Conv { window, weights } => check_weights(weights, window.taps() * x.shape[3], x, y),
        Op::Depthwise { window, weights } => check_weights(weights, window.taps(), x, y),
        Op::FullyConnected { weights } => check_weights(weights, x.len(), x, y),
        Op::MaxPool { .. } | Op::Reshape | Op::Resize if x.encoding != y.encoding => {
            Err("has different encodings of input and output, expected the same".to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns the shape that the operator computes. Only where an operator does not determine an extent, it comes from the
/// declared output `y`.
fn output_shape(
    op: &Op<'_>,
    inputs: &[&Tensor<'_>],
    x: &Tensor<'_>,
    y: &Tensor<'_>,
) -> Result<[usize; 4], String> {
    let [batch, height, width, channels] = x.shape;
    let windows = |window: &Window, channels: usize| {
        let output = window.output(height, width);
        let [height, width] = output
            .ok_or_else(|| format!("has a window larger than its input {}", shape(&x.shape)))?;
        Ok([batch, height, width, channels])
    };
    match op {
        Op::Conv { window, .. } => windows(window, y.shape[3]),
        Op::Depthwise { window, .. } => {
            if !y.shape[3].is_multiple_of(channels) {
                return Err(format!("computes {} channels from {channels}", y.shape[3]));
            }
            windows(window, y.shape[3])
        }
        Op::FullyConnected { .. } => Ok([1, 1, 1, y.shape[3]]),
        Op::Add | Op::Mul => match inputs {
            [_, b] if b.shape == x.shape || b.shape == [1, 1, 1, channels] => Ok(x.shape),
            [_, b, ..] => Err(format!("has inputs {} and {}", shape(&x.shape), shape(&b.shape))),
            _ => Err("has one input".to_owned()),
        },
        Op::Concat => {
            let differs = |other: &&&Tensor<'_>| other.shape[..3] != x.shape[..3];
            if let Some(other) = inputs.iter().find(differs) {
                return Err(format!("joins {} and {}", shape(&x.shape), shape(&other.shape)));
            }
            let channels =
                inputs.iter().fold(0, |sum: usize, input| sum.saturating_add(input.shape[3]));
            Ok([batch, height, width, channels])
        }
        Op::MaxPool { window }
        | Op::AveragePool { window, divisor: Divisor::Inside | Divisor::Kernel } => {
            windows(window, channels)
        }
        Op::Lookup { .. } | Op::Softmax => Ok(x.shape),
        Op::Reshape if x.len() == y.len() => Ok(y.shape),
        Op::Reshape => Err(format!("computes {} from {}", shape(&y.shape), shape(&x.shape))),
        Op::Resize => {
            let multiple = |to: usize, from: usize| (to / from).saturating_mul(from);
            Ok([batch, multiple(y.shape[1], height), multiple(y.shape[2], width), channels])
        }
    }
}

/// Checks that a window has no zero extents, and that no window lies completely in the padding.
fn check_window(window: &Window) -> Checked {
    let Window { kernel, strides, dilations, pads } = *window;
    for (name, [down, across]) in
        [("kernel", kernel), ("strides", strides), ("dilations", dilations)]
    {
        if down == 0 || across == 0 {
            return Err(format!("has a {name} of {down} x {across}, expected at least 1"));
        }
    }
    let [top, left, bottom, right] = pads;
    for (axis, pad) in [(0, top.max(bottom)), (1, left.max(right))] {
        if pad >= window.reach(axis) {
            let reach = window.reach(axis);
            return Err(format!("has a padding of {pad} for windows of {reach}, expected less"));
        }
    }
    Ok(())
}

/// Checks the parameters of a layer with `depth` weights per output channel.
fn check_weights(weights: &Weights<'_>, depth: usize, x: &Tensor<'_>, y: &Tensor<'_>) -> Checked {
    let outputs = y.shape[3];
    let (len, zeros) = match weights.values {
        Values::I8 { weights, zero_points } => (weights.len(), zero_points.len()),
        Values::U8 { weights, zero_points } => (weights.len(), zero_points.len()),
    };
    let expected = depth.saturating_mul(outputs);
    if len != expected {
        return Err(format!("has {len} weights, expected {expected}"));
    }
    for (name, found) in [("scales", weights.scales.len()), ("zero points", zeros)] {
        if found != 1 && found != outputs {
            return Err(format!("has {found} weight {name}, expected 1 or {outputs}"));
        }
    }
    if !weights.bias.is_empty() && weights.bias.len() != outputs {
        return Err(format!("has a bias of {}, expected none or {outputs}", weights.bias.len()));
    }
    for &scale in weights.scales {
        check_positive("weight scale", scale)?;
        check_positive("ratio of scales", ratio(x.encoding.scale, scale, y.encoding.scale))?;
    }
    Ok(())
}

/// Returns the factor that converts a sum of products to the output's scale, from the scales of input, weights and
/// output.
pub(crate) fn ratio(x: f32, weights: f32, y: f32) -> f32 {
    x * weights / y
}

fn check_positive(name: &str, value: f32) -> Checked {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(format!("has a {name} of {value}, expected a finite value above 0"))
}

/// Returns a tensor's type for messages.
fn shape(shape: &[usize; 4]) -> String {
    let [n, h, w, c] = shape;
    format!("u8[{n},{h},{w},{c}]")
}
