//! Cross-layer equalization (Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction,
//! 2019): W1' = W1 / s, b1' = b1 / s and W2' = W2 * s with s = sqrt(r1 / r2) for each channel between two convolutions. r1 and r2 are
//! the largest absolute weights that write and read the channel. Operators in between must be positively homogeneous:
//! f(s x) = s f(x) for s > 0.

use udo_api::Shape;

use super::QuantError;
use super::operators::{GROUPS, NumberAttrs, is_convolution, is_homogeneous};
use udo_compile::resolve::TypedGraph;
use udo_graph::graph::{Graph, Links, Node, NodeId, PerValue, Read, ValueId};
use udo_graph::memory::Tensor;

/// The largest number of passes over all pairs.
const ROUNDS: usize = 20;

/// The iteration ends when no |ln(s)| of a pass is larger.
const NEGLIGIBLE_CHANGE: f64 = 1e-3;

/// The weights and bias of a convolution.
struct Layer {
    node: NodeId,
    weights: Vec<f32>,
    dims: Vec<usize>,
    bias: Option<Vec<f32>>,
    groups: usize,
    is_changed: bool,
}

impl Layer {
    fn from_node(graph: &Graph, typed: &TypedGraph, id: NodeId) -> Option<Self> {
        let node = graph.nodes.get(id.index()).filter(|node| is_convolution(node))?;
        let weights = typed.known(node.input(1))?;
        let bias = match node.input(2) {
            Some(bias) => Some(typed.known(Some(bias))?.get::<f32>()?.to_vec()),
            None => None,
        };
        let groups = usize::try_from(node.int_attr(GROUPS).unwrap_or(1)).ok();
        let groups = groups.filter(|&groups| groups > 0)?;
        let (weights, dims) = (weights.get::<f32>()?.to_vec(), weights.dims().to_vec());
        Some(Self { node: id, weights, dims, bias, groups, is_changed: false })
    }

    fn output_channels(&self) -> usize {
        self.dims.first().copied().unwrap_or(0)
    }

    /// Returns the number of weights of each output channel.
    fn row(&self) -> usize {
        self.dims.iter().skip(1).product()
    }

    /// Returns the number of weights between one input and one output channel: the size of the kernel.
    fn window(&self) -> usize {
        self.dims.iter().skip(2).product()
    }

    /// Calls `body` with the weights of each window that reads an input channel.
    fn each_window_of_input(&mut self, channel: usize, mut body: impl FnMut(&mut [f32])) {
        let (row, window) = (self.row(), self.window());
        let per_group = self.dims.get(1).copied().unwrap_or(1).max(1);
        let results = self.output_channels() / self.groups;
        let (group, at) = (channel / per_group, channel % per_group);
        for result in group * results..(group + 1) * results {
            let start = result * row + at * window;
            if let Some(weights) = self.weights.get_mut(start..start + window) {
                body(weights);
            }
        }
    }

    fn input_channels(&self) -> usize {
        self.dims.get(1).copied().unwrap_or(0) * self.groups
    }
}

/// Two convolutions, the second of which reads the result of the first.
struct Pair {
    first: usize,
    second: usize,
}

/// Equalizes weights, and returns the number of pairs of convolutions that were found.
///
/// # Errors
/// There is not enough memory.
pub(super) fn equalize(graph: &mut Graph, typed: &TypedGraph) -> Result<usize, QuantError> {
    let mut layers: Vec<Layer> =
        graph.node_ids().filter_map(|id| Layer::from_node(graph, typed, id)).collect();
    let pairs = pairs(graph, &layers);
    for _ in 0..ROUNDS {
        let mut change: f64 = 0.0;
        for pair in &pairs {
            change = change.max(equalize_pair(&mut layers, pair));
        }
        if change < NEGLIGIBLE_CHANGE {
            break;
        }
    }
    for layer in layers.iter().filter(|layer| layer.is_changed) {
        store(graph, layer)?;
    }
    Ok(pairs.len())
}

fn pairs(graph: &Graph, layers: &[Layer]) -> Vec<Pair> {
    let consumers = graph.consumers();
    let place = |id: NodeId| layers.iter().position(|layer| layer.node == id);
    let pair_from = |(first, layer): (usize, &Layer)| {
        let mut value = graph.nodes.get(layer.node.index())?.output(0)?;
        loop {
            let reader = only_reader(graph, &consumers, value)?;
            let node: &Node = graph.nodes.get(reader.index())?;
            if node.input(0) != Some(value) {
                return None;
            }
            if let Some(second) = place(reader) {
                let fits = layers.get(second)?.input_channels() == layer.output_channels();
                return fits.then_some(Pair { first, second });
            }
            value = node.output(0).filter(|_| is_homogeneous(node))?;
        }
    };
    layers.iter().enumerate().filter_map(pair_from).collect()
}

fn only_reader(
    graph: &Graph,
    consumers: &PerValue<Vec<(NodeId, Read)>>,
    value: ValueId,
) -> Option<NodeId> {
    match consumers.get(value)?.as_slice() {
        [(reader, Read::Input(0))] if !graph.outputs.contains(&value) => Some(*reader),
        _ => None,
    }
}

/// Gives each channel the same range in the weights that write it and in those that read it. Returns the largest |ln(s)|.
fn equalize_pair(layers: &mut [Layer], pair: &Pair) -> f64 {
    let mut change: f64 = 0.0;
    let largest = |numbers: &[f32]| numbers.iter().fold(0f32, |most, x| most.max(x.abs()));
    for channel in 0..layers[pair.first].output_channels() {
        let first = &layers[pair.first];
        let row = first.row();
        let own =
            largest(first.weights.get(channel * row..(channel + 1) * row).unwrap_or_default());
        let mut others: f32 = 0.0;
        layers[pair.second]
            .each_window_of_input(channel, |weights| others = others.max(largest(weights)));
        if own == 0.0 || others == 0.0 {
            continue;
        }
        let factor = (own / others).sqrt();
        if !factor.is_normal() {
            continue;
        }
        change = change.max(f64::from(factor).ln().abs());
        let first = &mut layers[pair.first];
        first.weights[channel * row..(channel + 1) * row].iter_mut().for_each(|w| *w /= factor);
        if let Some(bias) = first.bias.as_mut().and_then(|bias| bias.get_mut(channel)) {
            *bias /= factor;
        }
        first.is_changed = true;
        let second = &mut layers[pair.second];
        second
            .each_window_of_input(channel, |weights| weights.iter_mut().for_each(|w| *w *= factor));
        second.is_changed = true;
    }
    change
}

fn store(graph: &mut Graph, layer: &Layer) -> Result<(), QuantError> {
    let Some(node) = graph.nodes.get(layer.node.index()).cloned() else { return Ok(()) };
    let mut inputs = node.inputs.clone();
    let replacements = [(1, Some((&layer.weights, layer.dims.clone())))]
        .into_iter()
        .chain([(2, layer.bias.as_ref().map(|bias| (bias, vec![bias.len()])))]);
    for (port, replacement) in replacements {
        let (Some((numbers, dims)), Some(old)) = (replacement, node.input(port)) else { continue };
        let Ok(shape) = Shape::new(&dims) else { continue };
        let name = graph.value(old)?.name.clone();
        inputs[port] = Some(graph.add_constant(&name, Tensor::from_slice(shape, numbers)?));
    }
    if let Some(node) = graph.nodes.get_mut(layer.node.index()) {
        node.inputs = inputs;
    }
    Ok(())
}
