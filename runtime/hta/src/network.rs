//! What is compiled: a network of layers on unsigned 8-bit values, its shapes checked.

/// A tensor of a network, by its place in [`Network::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// How values stand for numbers: `number = scale * (value - zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoding {
    /// What a step stands for.
    pub scale: f32,
    /// The value that stands for 0.
    pub zero_point: u8,
}

/// A tensor of bytes.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// For messages.
    pub name: String,
    /// Batch, height, width and channels.
    pub shape: [usize; 4],
    /// What its values stand for.
    pub encoding: Encoding,
    /// The values of one that is constant.
    pub values: Option<&'a [u8]>,
}

/// A sliding window over height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Taps down and across.
    pub kernel: [usize; 2],
    /// From a window to the next.
    pub strides: [usize; 2],
    /// From a tap to the next.
    pub dilations: [usize; 2],
    /// Padding above, left, below and right.
    pub pads: [usize; 4],
}

/// Weights and their zero points, one for all output channels or one for each.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Signed ones.
    I8 {
        /// Output channel by output channel.
        weights: &'a [i8],
        /// The values that stand for 0.
        zero_points: &'a [i8],
    },
    /// Unsigned ones.
    U8 {
        /// Output channel by output channel.
        weights: &'a [u8],
        /// The values that stand for 0.
        zero_points: &'a [u8],
    },
}

/// What a layer multiplies with, and adds.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Of a convolution `[outputs, channels, height, width]`, of one by channel `[outputs, height, width]`, of a fully
    /// connected layer `[outputs, depth]`.
    pub values: Values<'a>,
    /// One for all output channels, or one for each.
    pub scales: &'a [f32],
    /// None, or one for each output channel, in steps of the input's scale times the weights'.
    pub bias: &'a [i32],
}

/// What an average divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The taps within the image.
    Inside,
    /// All taps of the kernel.
    Kernel,
}

/// What a layer does.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// A convolution of all channels.
    Conv {
        /// Where it goes.
        window: Window,
        /// With what.
        weights: Weights<'a>,
    },
    /// A convolution of each channel by itself, which makes one or several of it.
    Depthwise {
        /// Where it goes.
        window: Window,
        /// With what.
        weights: Weights<'a>,
    },
    /// The product of all that the input has with a matrix.
    FullyConnected {
        /// The matrix.
        weights: Weights<'a>,
    },
    /// The sum of two tensors, the second of the same shape or a number for each channel.
    Add,
    /// Their product.
    Mul,
    /// Tensors behind each other along the channels, brought to one encoding.
    Concat,
    /// The greatest value of each window.
    MaxPool {
        /// Where they are.
        window: Window,
    },
    /// The average of each window; of the whole image with a kernel of its size.
    AveragePool {
        /// Where they are.
        window: Window,
        /// What they are divided by.
        divisor: Divisor,
    },
    /// For each value what a table has for it.
    Lookup {
        /// The table.
        table: &'a [u8; 256],
    },
    /// The same bytes as another shape.
    Reshape,
    /// Each pixel several times, down and across: by how many the shapes say.
    Resize,
    /// The share of each channel in a pixel's powers of e.
    Softmax,
}

/// The operators, without what they are given.
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

/// A layer: what it reads, what it makes of it, and where that goes.
#[derive(Clone, Debug)]
pub struct Layer<'a> {
    /// For messages.
    pub name: String,
    /// What it does.
    pub op: Op<'a>,
    /// What it reads.
    pub inputs: Vec<TensorId>,
    /// What it makes.
    pub output: TensorId,
}

/// What is compiled: layers in an order in which they can run.
#[derive(Clone, Debug)]
pub struct Network<'a> {
    pub(crate) tensors: Vec<Tensor<'a>>,
    pub(crate) layers: Vec<Layer<'a>>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    /// The inputs that the DSP makes.
    pub(crate) inner: Vec<TensorId>,
}

impl Kind {
    /// As users read it.
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
    /// Which operator it is.
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

    /// Its window, if it has one.
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

    /// Its weights, if it has some.
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
    /// Its bytes; the most there are if that is beyond memory.
    pub fn len(&self) -> usize {
        self.shape.iter().fold(1, |len: usize, &extent| len.saturating_mul(extent))
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Window {
    /// A window of one tap that meets each pixel.
    pub const ONE: Self = Self { kernel: [1; 2], strides: [1; 2], dilations: [1; 2], pads: [0; 4] };

    /// Taps of the kernel.
    pub fn taps(&self) -> usize {
        self.kernel[0].saturating_mul(self.kernel[1])
    }

    /// Pixels along an axis from the first tap to the last, both included.
    pub(crate) fn reach(&self, axis: usize) -> usize {
        self.kernel[axis].saturating_sub(1).saturating_mul(self.dilations[axis]).saturating_add(1)
    }

    /// Height and width of what it makes of an image; none if it has no place in it.
    pub fn output(&self, height: usize, width: usize) -> Option<[usize; 2]> {
        let along = |axis: usize, input: usize| {
            let padded = input.checked_add(self.pads[axis])?.checked_add(self.pads[axis + 2])?;
            padded.checked_sub(self.reach(axis))?.checked_div(self.strides[axis])?.checked_add(1)
        };
        Some([along(0, height)?, along(1, width)?])
    }
}

impl<'a> Network<'a> {
    /// A network of these tensors and layers, in an order in which they can run.
    ///
    /// # Errors
    /// Shapes that do not fit each other, layers that read what is not there yet, numbers that encode nothing.
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

    /// The same as a part of a larger network: inputs for which this is true are made by the DSP, whose memory the HTA shares,
    /// and may have as many channels as a layer's.
    #[must_use]
    pub fn part(mut self, is_inner: impl Fn(TensorId) -> bool) -> Self {
        self.inner = self.inputs.iter().copied().filter(|&input| is_inner(input)).collect();
        self
    }

    /// Its tensors.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// Its layers.
    pub fn layers(&self) -> &[Layer<'a>] {
        &self.layers
    }

    /// The tensors that a run is given.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }

    /// The tensors that a run gives.
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }
}

/// Why something is no network: where, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {fault}")]
pub struct NetworkError {
    /// The layer or tensor.
    pub what: String,
    /// What is wrong with it.
    pub fault: String,
}

/// What is wrong with something.
type Checked = Result<(), String>;

/// The most bytes of a tensor, as addresses have 32 bits.
const MAX_BYTES: usize = 1 << 31;

/// Checks that a network fits together: who makes what, shapes, encodings and weights.
fn check(network: &Network<'_>) -> Result<(), NetworkError> {
    let Network { tensors, layers, inputs, outputs, .. } = network;
    for one in tensors {
        let what = || format!("tensor {:?}", one.name);
        tensor(one).map_err(|fault| NetworkError { what: what(), fault })?;
    }
    let mut is_there: Vec<bool> = tensors.iter().map(|tensor| tensor.values.is_some()).collect();
    let mut made = |id: TensorId| match is_there.get_mut(id.0) {
        None => Err(format!("is tensor {}, of which there are {}", id.0, tensors.len())),
        Some(true) => Err("is there twice, or constant".to_owned()),
        Some(is_there) => {
            *is_there = true;
            Ok(())
        }
    };
    let name = |id: TensorId| tensors.get(id.0).map_or("?", |tensor| &tensor.name);
    for &id in inputs {
        let what = || format!("input {:?}", name(id));
        made(id).map_err(|fault| NetworkError { what: what(), fault })?;
    }
    let mut known = vec![false; tensors.len()];
    for (id, known) in known.iter_mut().enumerate() {
        *known =
            inputs.contains(&TensorId(id)) || tensors.get(id).is_some_and(|t| t.values.is_some());
    }
    for one in layers {
        let what = || format!("layer {:?} ({})", one.name, one.op.kind().name());
        let error = |fault| NetworkError { what: what(), fault };
        for &id in &one.inputs {
            if known.get(id.0) != Some(&true) {
                let fault = format!("reads tensor {:?}, which no layer before it makes", name(id));
                return Err(error(fault));
            }
        }
        made(one.output)
            .map_err(|fault| error(format!("makes {:?}, which {fault}", name(one.output))))?;
        if let Some(known) = known.get_mut(one.output.0) {
            *known = true;
        }
        layer(one, tensors).map_err(error)?;
    }
    for (at, &id) in outputs.iter().enumerate() {
        let is_made = layers.iter().any(|layer| layer.output == id);
        if !is_made || outputs.iter().take(at).any(|other| *other == id) {
            let fault = "is made by no layer, or there twice".to_owned();
            return Err(NetworkError { what: format!("output {:?}", name(id)), fault });
        }
    }
    if outputs.is_empty() {
        let fault = "has no outputs".to_owned();
        return Err(NetworkError { what: "the network".to_owned(), fault });
    }
    Ok(())
}

fn tensor(tensor: &Tensor<'_>) -> Checked {
    let len = tensor.len();
    if len == 0 || len > MAX_BYTES {
        return Err(format!("is {}, wanted 1 to {MAX_BYTES} bytes", shape(&tensor.shape)));
    }
    if let Some(values) = tensor.values.filter(|values| values.len() != len) {
        let found = values.len();
        return Err(format!("is {}, and has {found} values", shape(&tensor.shape)));
    }
    positive("scale", tensor.encoding.scale)
}

fn layer(layer: &Layer<'_>, tensors: &[Tensor<'_>]) -> Checked {
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
        return Err(format!("has {} inputs, wanted {}", inputs.len(), count.start()));
    }
    let (Some(&x), Some(y)) = (inputs.first(), tensors.get(layer.output.0)) else {
        return Err("has no input or output".to_owned());
    };
    if let Some(of) = layer.op.window() {
        window(of)?;
    }
    let wanted = output_shape(&layer.op, &inputs, x, y)?;
    if y.shape != wanted {
        return Err(format!("makes {}, and its output is {}", shape(&wanted), shape(&y.shape)));
    }
    match &layer.op {
        Op::Conv { window, weights: of } => weights(of, window.taps() * x.shape[3], x, y),
        Op::Depthwise { window, weights: of } => weights(of, window.taps(), x, y),
        Op::FullyConnected { weights: of } => weights(of, x.len(), x, y),
        Op::MaxPool { .. } | Op::Reshape | Op::Resize if x.encoding != y.encoding => {
            Err("has an input and an output of different encodings, wanted the same".to_owned())
        }
        _ => Ok(()),
    }
}

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
                return Err(format!("makes {} channels of {channels}", y.shape[3]));
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
            let same = |other: &&&Tensor<'_>| other.shape[..3] != x.shape[..3];
            if let Some(other) = inputs.iter().find(same) {
                return Err(format!("joins {} and {}", shape(&x.shape), shape(&other.shape)));
            }
            let all = inputs.iter().fold(0, |sum: usize, part| sum.saturating_add(part.shape[3]));
            Ok([batch, height, width, all])
        }
        Op::MaxPool { window }
        | Op::AveragePool { window, divisor: Divisor::Inside | Divisor::Kernel } => {
            windows(window, channels)
        }
        Op::Lookup { .. } | Op::Softmax => Ok(x.shape),
        Op::Reshape if x.len() == y.len() => Ok(y.shape),
        Op::Reshape => Err(format!("makes {} of {}", shape(&y.shape), shape(&x.shape))),
        Op::Resize => {
            let times = |to: usize, from: usize| (to / from).saturating_mul(from);
            Ok([batch, times(y.shape[1], height), times(y.shape[2], width), channels])
        }
    }
}

fn window(window: &Window) -> Checked {
    let Window { kernel, strides, dilations, pads } = *window;
    for (name, [down, across]) in
        [("kernel", kernel), ("strides", strides), ("dilations", dilations)]
    {
        if down == 0 || across == 0 {
            return Err(format!("has a {name} of {down} x {across}, wanted 1 at least"));
        }
    }
    let [top, left, bottom, right] = pads;
    for (axis, pad) in [(0, top.max(bottom)), (1, left.max(right))] {
        if pad >= window.reach(axis) {
            let reach = window.reach(axis);
            return Err(format!("has a padding of {pad} for windows of {reach}, wanted less"));
        }
    }
    Ok(())
}

fn weights(weights: &Weights<'_>, depth: usize, x: &Tensor<'_>, y: &Tensor<'_>) -> Checked {
    let outputs = y.shape[3];
    let (len, zeros) = match weights.values {
        Values::I8 { weights, zero_points } => (weights.len(), zero_points.len()),
        Values::U8 { weights, zero_points } => (weights.len(), zero_points.len()),
    };
    let wanted = depth.saturating_mul(outputs);
    if len != wanted {
        return Err(format!("has {len} weights, wanted {wanted}"));
    }
    for (name, found) in [("scales", weights.scales.len()), ("zero points", zeros)] {
        if found != 1 && found != outputs {
            return Err(format!("has {found} {name} of weights, wanted 1 or {outputs}"));
        }
    }
    if !weights.bias.is_empty() && weights.bias.len() != outputs {
        return Err(format!("has a bias of {}, wanted none or {outputs}", weights.bias.len()));
    }
    for &scale in weights.scales {
        positive("scale of weights", scale)?;
        positive("ratio of scales", ratio(x.encoding.scale, scale, y.encoding.scale))?;
    }
    Ok(())
}

/// What a sum of products is multiplied with.
pub(crate) fn ratio(x: f32, weights: f32, y: f32) -> f32 {
    x * weights / y
}

fn positive(name: &str, number: f32) -> Checked {
    if number.is_finite() && number > 0.0 {
        return Ok(());
    }
    Err(format!("has a {name} of {number}, wanted a finite one above 0"))
}

fn shape(shape: &[usize; 4]) -> String {
    let [n, h, w, c] = shape;
    format!("u8[{n},{h},{w},{c}]")
}
