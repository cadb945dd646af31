//! Whether a network fits together: who makes what, shapes, encodings and weights.

use super::{Divisor, Layer, Network, Op, Tensor, TensorId, Values, Weights, Window};

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

pub(crate) fn network(network: &Network<'_>) -> Result<(), NetworkError> {
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
