//! Random networks from fixed seeds, within the limits of a SoC.

use udo_hta::{
    Divisor, Encoding, Kind, Layer, Network, Op, SOCS, Soc, Tensor, TensorId, Values, Weights,
    Window,
};

/// A random number generator: Marsaglia's xorshift with shifts 13, 7 and 17.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a value from `min` to `max`, inclusive.
    pub(crate) fn within(&mut self, min: usize, max: usize) -> usize {
        min + (self.next() >> 16) as usize % (max - min + 1)
    }

    /// Returns true once in `one_in` calls, on average.
    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.within(1, one_in) == 1
    }

    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.within(0, choices.len() - 1)].clone()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 24) as u8).collect()
    }

    fn scale(&mut self) -> f32 {
        self.within(1, 1000) as f32 / 4000.0
    }

    fn encoding(&mut self) -> Encoding {
        Encoding { scale: self.scale(), zero_point: self.within(0, 255) as u8 }
    }
}

/// A network with the data that [`Network`] only borrows.
#[derive(Default)]
pub(crate) struct Owned {
    tensors: Vec<OwnedTensor>,
    /// Name, operator, inputs and output.
    layers: Vec<(String, OwnedOp, Vec<TensorId>, TensorId)>,
    inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
}

struct OwnedTensor {
    name: String,
    shape: [usize; 4],
    encoding: Encoding,
    values: Option<Vec<u8>>,
}

struct OwnedWeights {
    is_signed: bool,
    weights: Vec<u8>,
    zero_points: Vec<u8>,
    /// The weights and the zero points as signed values.
    signed: [Vec<i8>; 2],
    scales: Vec<f32>,
    bias: Vec<i32>,
}

enum OwnedOp {
    /// A layer with weights.
    Filter(Kind, Window, OwnedWeights),
    /// A pooling layer.
    Windows(Kind, Window, Divisor),
    Lookup(Box<[u8; 256]>),
    /// An operator without parameters.
    Plain(Kind),
}

impl Owned {
    pub(crate) fn tensor(&mut self, shape: [usize; 4], encoding: Encoding) -> TensorId {
        let name = format!("t{}", self.tensors.len());
        self.tensors.push(OwnedTensor { name, shape, encoding, values: None });
        TensorId(self.tensors.len() - 1)
    }

    pub(crate) fn input(&mut self, random: &mut Random, shape: [usize; 4]) -> TensorId {
        let id = self.tensor(shape, random.encoding());
        self.inputs.push(id);
        id
    }

    fn constant(&mut self, random: &mut Random, shape: [usize; 4]) -> TensorId {
        let id = self.tensor(shape, random.encoding());
        self.tensors[id.0].values = Some(random.bytes(shape.iter().product()));
        id
    }

    pub(crate) fn shape(&self, id: TensorId) -> [usize; 4] {
        self.tensors[id.0].shape
    }

    fn layer(&mut self, op: OwnedOp, inputs: Vec<TensorId>, output: TensorId) -> TensorId {
        self.layers.push((format!("l{}", self.layers.len()), op, inputs, output));
        output
    }

    pub(crate) fn network(&self) -> Network<'_> {
        self.try_network().unwrap()
    }

    pub(crate) fn try_network(&self) -> Result<Network<'_>, udo_hta::NetworkError> {
        let tensors = self.tensors.iter().map(|tensor| Tensor {
            name: tensor.name.clone(),
            shape: tensor.shape,
            encoding: tensor.encoding,
            values: tensor.values.as_deref(),
        });
        let layers = self.layers.iter().map(|(name, op, inputs, output)| Layer {
            name: name.clone(),
            op: op.borrowed(),
            inputs: inputs.clone(),
            output: *output,
        });
        Network::new(tensors.collect(), layers.collect(), self.inputs.clone(), self.outputs.clone())
    }

    /// Returns values for the inputs.
    pub(crate) fn feeds(&self, random: &mut Random) -> Vec<Vec<u8>> {
        let len = |id: &TensorId| self.shape(*id).iter().product();
        self.inputs.iter().map(|id| random.bytes(len(id))).collect()
    }
}

impl OwnedWeights {
    fn random(random: &mut Random, depth: usize, outputs: usize) -> Self {
        let weights = random.bytes(depth * outputs);
        let count = if random.chance(2) { 1 } else { outputs };
        let is_signed = random.chance(2);
        let signed_zero = if is_signed { 0 } else { 128 };
        let zero_points = match random.within(0, 2) {
            0 => vec![signed_zero],
            1 => vec![random.within(0, 255) as u8],
            _ => random.bytes(outputs),
        };
        let signed = [&weights, &zero_points]
            .map(|bytes| bytes.iter().map(|byte| byte.cast_signed()).collect());
        let bias = if random.chance(3) { 0 } else { outputs };
        // Sums grow with the square root of their length, and outputs should not all saturate.
        let max_scale = 20_000.0 / (depth as f32).sqrt();
        Self {
            is_signed,
            weights,
            zero_points,
            signed,
            scales: (0..count).map(|_| random.scale() * max_scale / 100_000.0).collect(),
            bias: (0..bias).map(|_| random.within(0, 20_000) as i32 - 10_000).collect(),
        }
    }

    fn borrowed(&self) -> Weights<'_> {
        let [signed, zeros] = &self.signed;
        let values = if self.is_signed {
            Values::I8 { weights: signed, zero_points: zeros }
        } else {
            Values::U8 { weights: &self.weights, zero_points: &self.zero_points }
        };
        Weights { values, scales: &self.scales, bias: &self.bias }
    }
}

impl OwnedOp {
    fn borrowed(&self) -> Op<'_> {
        match self {
            Self::Filter(Kind::Conv, window, weights) => {
                Op::Conv { window: *window, weights: weights.borrowed() }
            }
            Self::Filter(Kind::Depthwise, window, weights) => {
                Op::Depthwise { window: *window, weights: weights.borrowed() }
            }
            Self::Filter(_, _, weights) => Op::FullyConnected { weights: weights.borrowed() },
            Self::Windows(Kind::MaxPool, window, _) => Op::MaxPool { window: *window },
            Self::Windows(_, window, divisor) => {
                Op::AveragePool { window: *window, divisor: *divisor }
            }
            Self::Lookup(table) => Op::Lookup { table },
            Self::Plain(Kind::Add) => Op::Add,
            Self::Plain(Kind::Mul) => Op::Mul,
            Self::Plain(Kind::Concat) => Op::Concat,
            Self::Plain(Kind::Reshape) => Op::Reshape,
            Self::Plain(Kind::Resize) => Op::Resize,
            Self::Plain(_) => Op::Softmax,
        }
    }
}

/// Returns a random window that a SoC supports for an operator and that fits an image.
fn window(random: &mut Random, soc: &Soc, kind: Kind, [height, width]: [usize; 2]) -> Window {
    let limit = soc.operators.iter().find(|limit| limit.kind == kind).unwrap();
    loop {
        let pair = |random: &mut Random, max: usize| [random.within(1, max), random.within(1, max)];
        let kernel = match random.within(0, 2) {
            0 => [3, 3],
            1 => [1, 1],
            _ => pair(random, limit.kernel.min(5)),
        };
        let strides = if random.chance(2) { [1, 1] } else { pair(random, limit.stride.min(3)) };
        let dilations = if random.chance(2) { [1, 1] } else { pair(random, limit.dilation.min(3)) };
        let mut pads = [0; 4];
        for (side, pad) in pads.iter_mut().enumerate() {
            *pad = random.within(0, (kernel[side % 2] - 1) * dilations[side % 2]);
        }
        let window = Window { kernel, strides, dilations, pads };
        if window.output(height, width).is_some() {
            return window;
        }
    }
}

/// Appends a convolution, and returns its output.
fn filter(
    owned: &mut Owned,
    random: &mut Random,
    soc: &Soc,
    kind: Kind,
    from: TensorId,
) -> TensorId {
    let [_, height, width, channels] = owned.shape(from);
    let window = window(random, soc, kind, [height, width]);
    let [down, across] = window.output(height, width).unwrap();
    let taps = window.kernel[0] * window.kernel[1];
    let (outputs, depth) = match kind {
        Kind::Conv => (random.within(1, 40), taps * channels),
        _ => (channels * random.within(1, 2), taps),
    };
    let weights = OwnedWeights::random(random, depth, outputs);
    let encoding = random.encoding();
    let y = owned.tensor([1, down, across, outputs], encoding);
    owned.layer(OwnedOp::Filter(kind, window, weights), vec![from], y)
}

/// Appends a layer, and returns its output.
pub(crate) fn append(
    owned: &mut Owned,
    random: &mut Random,
    soc: &Soc,
    kind: Kind,
    from: TensorId,
) -> TensorId {
    let shape = owned.shape(from);
    let [_, height, width, channels] = shape;
    let encoding = owned.tensors[from.0].encoding;
    match kind {
        Kind::Conv | Kind::Depthwise => filter(owned, random, soc, kind, from),
        Kind::FullyConnected => {
            let outputs = random.within(1, 40);
            let weights = OwnedWeights::random(random, height * width * channels, outputs);
            let encoding = random.encoding();
            let y = owned.tensor([1, 1, 1, outputs], encoding);
            owned.layer(OwnedOp::Filter(kind, Window::ONE, weights), vec![from], y)
        }
        Kind::MaxPool | Kind::AveragePool => {
            let is_global =
                kind == Kind::AveragePool && random.chance(4) && height.max(width) <= 32;
            let window = if is_global {
                Window { kernel: [height, width], ..Window::ONE }
            } else {
                window(random, soc, kind, [height, width])
            };
            let [down, across] = window.output(height, width).unwrap();
            let encoding = if kind == Kind::MaxPool { encoding } else { random.encoding() };
            let divisor = random.pick(&[Divisor::Inside, Divisor::Kernel]);
            let y = owned.tensor([1, down, across, channels], encoding);
            owned.layer(OwnedOp::Windows(kind, window, divisor), vec![from], y)
        }
        Kind::Add | Kind::Mul => {
            let other = match random.within(0, 3) {
                0 => from,
                1 => owned.constant(random, [1, 1, 1, channels]),
                2 => owned.constant(random, shape),
                _ => append(owned, random, soc, Kind::Lookup, from),
            };
            let encoding = random.encoding();
            let y = owned.tensor(shape, encoding);
            owned.layer(OwnedOp::Plain(kind), vec![from, other], y)
        }
        Kind::Concat => {
            let mut parts = vec![from];
            for _ in 0..random.within(0, 2) {
                parts.push(append(owned, random, soc, Kind::Lookup, from));
            }
            let channels = parts.iter().map(|part| owned.shape(*part)[3]).sum();
            let encoding = if random.chance(2) { encoding } else { random.encoding() };
            let y = owned.tensor([1, height, width, channels], encoding);
            owned.layer(OwnedOp::Plain(kind), parts, y)
        }
        Kind::Lookup => {
            let table: [u8; 256] = random.bytes(256).try_into().unwrap();
            let encoding = random.encoding();
            let y = owned.tensor(shape, encoding);
            owned.layer(OwnedOp::Lookup(Box::new(table)), vec![from], y)
        }
        Kind::Reshape => {
            let shapes = [
                [1, width, height, channels],
                [1, 1, height * width, channels],
                [1, height, 1, width * channels],
            ];
            let y = owned.tensor(random.pick(&shapes), encoding);
            owned.layer(OwnedOp::Plain(kind), vec![from], y)
        }
        Kind::Resize => {
            let times = [random.within(1, 3), random.within(1, 3)];
            let y = owned.tensor([1, height * times[0], width * times[1], channels], encoding);
            owned.layer(OwnedOp::Plain(kind), vec![from], y)
        }
        Kind::Softmax => {
            let y = owned.tensor(shape, Encoding { scale: 1.0 / 256.0, zero_point: 0 });
            owned.layer(OwnedOp::Plain(kind), vec![from], y)
        }
    }
}

/// Returns a network of several layers, each reading an earlier output.
pub(crate) fn network(random: &mut Random, soc: &Soc, layers: usize) -> Owned {
    let mut owned = Owned::default();
    let shape = [1, random.within(1, 14), random.within(1, 14), random.within(1, 16)];
    let mut last = owned.input(random, shape);
    let mut earlier = vec![last];
    for _ in 0..layers {
        let kind = random.pick(soc.operators).kind;
        let input = if random.chance(4) { random.pick(&earlier) } else { last };
        let [_, height, width, channels] = owned.shape(input);
        // Limits the growth of tensors by resizing and concatenation, and the weights of fully connected layers.
        let is_large = height * width * channels > 20_000;
        let grows = matches!(kind, Kind::Resize | Kind::Concat);
        let is_deep = kind == Kind::FullyConnected && height * width * channels > 2000;
        let kind = if is_large && grows || is_deep { Kind::Lookup } else { kind };
        last = append(&mut owned, random, soc, kind, input);
        if random.chance(5) {
            owned.outputs.push(last);
        }
        earlier.push(last);
    }
    if !owned.outputs.contains(&last) {
        owned.outputs.push(last);
    }
    owned
}

/// Returns a SoC with other memory sizes.
pub(crate) fn with_memory(soc: &Soc, sram_bytes: u32, weight_bytes: u32) -> Soc {
    Soc { sram_bytes, weight_bytes, ..*soc }
}

/// Returns the SoC that supports all operators, which is the last one.
pub(crate) fn full() -> &'static Soc {
    SOCS.last().unwrap()
}
