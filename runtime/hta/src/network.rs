//! What is compiled: a network of layers on unsigned 8-bit values, its shapes checked.

mod check;

pub use check::NetworkError;
pub(crate) use check::ratio;

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
        check::network(&network)?;
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
