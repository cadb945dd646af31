//! Folds constant scales, biases and batch normalizations into the weights of a neighboring product (arXiv:1712.05877,
//! section 3.2).
//!
//! * After y = w * x + b: `y * f + a` -> `(w * f) * x + (b * f + a)`, with f and a for each output channel.
//! * Before y = w * x + b: `w * (x * f + a) + b` -> `(w * f) * x + (b + sum(w * a))`, with f and a for each input
//!   channel.
//!
//! A batch normalization counts as a product, too: its scale is the weights.

use udo_api::{DType, Shape};

use super::epilogue::vector;
use super::pad_fusion::own_pads;
use crate::pass::{Candidate, Fusion};
use udo_graph::container::checksum::sum128;
use udo_graph::memory::{Buffer, Tensor, TensorStorage, elements_mut};

/// The largest weights, in bytes, that are duplicated if other nodes read them as well.
const MAX_SHARED_BYTES: usize = 1 << 20;

/// Returns the neighboring product that may do this node's work, with its new weights and bias.
pub(in crate::pass) fn fold(node: &Candidate<'_>) -> Option<Fusion> {
    let affine = Affine::from_node(node).filter(|_| node.makes_one_fixed())?;
    into_producer(node, &affine).or_else(|| into_consumer(node, &affine))
}

/// Folds into the product whose result the node reads.
fn into_producer(node: &Candidate<'_>, affine: &Affine) -> Option<Fusion> {
    let product = Product::from_node(node.sole_producer(affine.port)?)?;
    let axis = product.node.output().rank().checked_sub(product.last_axes)?;
    product.folded(node, affine, affine.fits(axis).then_some(Side::Results)?)
}

/// Folds into the product that reads the node's result. A batch normalization does not sum over channels, so it cannot.
fn into_consumer(node: &Candidate<'_>, affine: &Affine) -> Option<Fusion> {
    let consumer =
        node.only_consumer().filter(|consumer| consumer.op() != Some("BatchNormalization"))?;
    let product = Product::from_node(consumer)?;
    let variable_port = 1usize.checked_sub(product.weights.port)?;
    if product.node.input_id(variable_port) != node.node().node.output(0) {
        return None;
    }
    let axis = node.output().rank().checked_sub(product.last_axes)?;
    product.folded(node, affine, affine.fits(axis).then_some(Side::Operand)?)
}

/// y = x * factor + addend, with one factor and addend for each position of an axis, or for all elements.
struct Affine {
    /// The input that is `x`.
    port: usize,
    /// The axis; `None` if all elements have the same factor and addend.
    axis: Option<usize>,
    factors: Vec<f64>,
    addends: Vec<f64>,
}

impl Affine {
    /// Returns the affine function that a node computes if its other inputs are constant.
    fn from_node(node: &Candidate<'_>) -> Option<Self> {
        let affine = match node.op()? {
            "BatchNormalization" => Self::normalization(node),
            "Mul" => Candidate::either(|x, c| Self::elementwise(node, x, c, |c| (c, 0.0))),
            "Div" => Self::elementwise(node, 0, 1, |c| (c.recip(), 0.0)),
            "Add" => Candidate::either(|x, c| Self::elementwise(node, x, c, |c| (1.0, c))),
            "Sub" => Self::elementwise(node, 0, 1, |c| (1.0, -c))
                .or_else(|| Self::elementwise(node, 1, 0, |c| (-1.0, c))),
            _ => None,
        }?;
        let fits = node.input(affine.port).full_shape() == node.output().full_shape();
        fits.then_some(affine)
    }

    /// Returns the function of a node with a constant operand; `map` converts a constant to factor and addend.
    fn elementwise(
        node: &Candidate<'_>,
        port: usize,
        constants: usize,
        map: fn(f64) -> (f64, f64),
    ) -> Option<Self> {
        let numbers = node.constant::<f32>(constants)?;
        let axis = match numbers {
            [_] => None,
            _ => vector(node, constants).map(|(_, axis)| Some(axis))?,
        };
        let (factors, addends) = numbers.iter().map(|&number| map(f64::from(number))).unzip();
        Some(Self { port, axis, factors, addends })
    }

    /// Returns the function of a batch normalization: scale * (x - mean) / sqrt(variance + epsilon) + shift.
    fn normalization(node: &Candidate<'_>) -> Option<Self> {
        let [scale, shift, mean, variance] = [1, 2, 3, 4].map(|port| node.constant::<f32>(port));
        #[expect(clippy::cast_possible_truncation, reason = "the operator computes in f32")]
        let epsilon = f64::from(node.float("epsilon")? as f32);
        let roots = variance?.iter().map(|&variance| (f64::from(variance) + epsilon).sqrt());
        let scales = scale?.iter().zip(roots);
        let factors: Vec<f64> = scales.map(|(&scale, root)| f64::from(scale) / root).collect();
        let terms = shift?.iter().zip(mean?).zip(&factors);
        let addends = terms.map(|((&shift, &mean), f)| f64::from(shift) - f64::from(mean) * f);
        Some(Self { port: 0, axis: Some(1), addends: addends.collect(), factors })
    }

    /// Returns whether factors and addends vary at most along this axis.
    fn fits(&self, axis: usize) -> bool {
        self.axis.is_none_or(|affine_axis| affine_axis == axis)
    }

    fn adds(&self) -> bool {
        self.addends.iter().any(|&addend| addend != 0.0)
    }

    #[expect(clippy::float_cmp, reason = "a factor of exactly one changes nothing")]
    fn multiplies(&self) -> bool {
        self.factors.iter().any(|&factor| factor != 1.0)
    }
}

/// The side of a product whose channels are scaled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The variable operand: input channels.
    Operand,
    /// The results: output channels.
    Results,
}

/// The constant operand of a product.
struct Weights<'a> {
    port: usize,
    /// An f32 tensor.
    tensor: &'a Tensor,
    /// The extents of the channel axes, and of all axes after them together.
    dims: [usize; 3],
    /// The number of positions of the first axis after which its channels repeat.
    period: usize,
    /// The side whose channels lie along the first axis. Those of the other side, within a group, lie along the second.
    first: Side,
    groups: usize,
}

/// A product with constant weights.
struct Product<'a> {
    node: Candidate<'a>,
    weights: Weights<'a>,
    /// The input that is its bias, if it supports one.
    bias: Option<usize>,
    /// The number of axes from the channels to the last axis.
    last_axes: usize,
    /// The factor of the weights' sums.
    alpha: f64,
}

impl<'a> Product<'a> {
    fn from_node(node: Candidate<'a>) -> Option<Self> {
        let groups = || usize::try_from(node.int("group")?).ok().filter(|&groups| groups > 0);
        match node.op()? {
            "Conv" => Self::with(node, 1, Side::Results, groups()?, 2),
            "ConvTranspose" => Self::with(node, 1, Side::Operand, groups()?, 2),
            "BatchNormalization" => Self::normalization(node),
            "Gemm" if node.int("transA") == Some(0) => {
                let first =
                    if node.int("transB") == Some(0) { Side::Operand } else { Side::Results };
                let alpha = node.float("alpha")?;
                Some(Self { alpha, ..Self::with(node, 1, first, 1, 2)? })
            }
            "MatMul" => {
                let port = usize::from(node.tensor(1).is_some());
                let first = if port == 1 { Side::Operand } else { Side::Results };
                let rank = node.input(port).rank();
                Some(Self { bias: None, last_axes: 1, ..Self::with(node, port, first, 1, rank)? })
            }
            _ => None,
        }
    }

    /// Returns a batch normalization as a product: its scale is the weights.
    fn normalization(node: Candidate<'a>) -> Option<Self> {
        let tensor = floats(&node, 1)?;
        let count: usize = tensor.dims().iter().product();
        let (dims, period, first) = ([count, 1, 1], count, Side::Results);
        let weights = Weights { port: 1, tensor, dims, period, first, groups: 1 };
        let last_axes = node.input(0).rank().checked_sub(1)?;
        Some(Self { node, weights, bias: Some(2), last_axes, alpha: 1.0 })
    }

    /// Returns a product whose weights have `axes` axes up to and including the channels; batch axes come first.
    fn with(
        node: Candidate<'a>,
        port: usize,
        first: Side,
        groups: usize,
        axes: usize,
    ) -> Option<Self> {
        let desc = node.input(port);
        let (channel_dims, kernel_dims) = desc.shape().split_at_checked(axes)?;
        let (&second, outer) = channel_dims.split_last()?;
        let (&period, dims) =
            (outer.last()?, [outer, &[second], kernel_dims].map(|dims| dims.iter().product()));
        let tensor = floats(&node, port)?;
        let weights = Weights { port, tensor, dims, period, first, groups };
        let last_axes = node.input(0).rank().checked_sub(1)?;
        Some(Self { node, weights, bias: Some(2), last_axes, alpha: 1.0 })
    }

    /// Returns the fusion of a node that scales the channels of one side.
    fn folded(self, node: &Candidate<'_>, affine: &Affine, side: Side) -> Option<Fusion> {
        let Self { node: product, weights, .. } = &self;
        let port = weights.port;
        // If the constant is the left operand, its rows are not an axis of the result's channels.
        let is_foldable = port == 1 || (affine.axis.is_none() && !affine.adds());
        let is_small =
            product.reads_alone(port) || weights.tensor.desc().size_bytes() <= MAX_SHARED_BYTES;
        if !is_foldable || !is_small || product.is_encoded(port) || !node.runs_with(product) {
            return None;
        }
        let mut constants = Vec::new();
        if affine.multiplies() {
            let (compute, desc) = (|| weights.scaled(affine, side), weights.tensor.desc());
            let key = |constant_id: &dyn Fn(&Tensor) -> u128| {
                format!("scaled {:x} {}", constant_id(weights.tensor), weights.words(affine, side))
            };
            constants.push((port, product.derive(desc, key, compute)?));
        }
        if let Some(bias) = self.new_bias(affine, side)? {
            constants.push((self.bias?, bias));
        }
        Some(Fusion::Constants {
            into: product.id(),
            input: node.input_id(affine.port)?,
            constants,
        })
    }

    /// Returns the new bias, `Some(None)` if it does not change, or `None` if the addend cannot be folded.
    #[expect(clippy::option_option, reason = "no bias is not the same as no way to have one")]
    fn new_bias(&self, affine: &Affine, side: Side) -> Option<Option<Tensor>> {
        let (node, port) = (&self.node, self.bias.unwrap_or(usize::MAX));
        let old_bias = self.bias.and_then(|port| node.input_id(port));
        let scales = old_bias.is_some() && side == Side::Results && affine.multiplies();
        if !affine.adds() && !scales {
            return Some(None);
        }
        let count = node.output().shape().iter().rev().nth(self.last_axes - 1).copied()?;
        let bias = match old_bias {
            None => vec![0.0; count],
            Some(_) if node.is_encoded(port) => return None,
            Some(_) => bias_elements(node, port, count)?,
        };
        let has_unit_beta = node.float("beta").is_none_or(|beta| beta.to_bits() == 1f64.to_bits());
        if self.bias.is_none() || (affine.adds() && !has_unit_beta) {
            return None;
        }
        let sums = if side == Side::Operand { self.sums(affine, count)? } else { Vec::new() };
        let new_bias = bias.iter().enumerate().map(|(channel, bias)| match side {
            Side::Results => {
                bias * element(&affine.factors, channel) + element(&affine.addends, channel)
            }
            Side::Operand => bias + self.alpha * element(&sums, channel),
        });
        let bias: Vec<f32> = new_bias.map(rounded).collect();
        let fits = bias.iter().all(|bias| bias.is_finite());
        let shape = Shape::new(&[count]).ok().filter(|_| fits)?;
        Some(Some(Tensor::from_slice(shape, &bias).ok()?))
    }

    /// Returns sum(w * a) for each output channel, if padding does not make windows differ.
    fn sums(&self, affine: &Affine, count: usize) -> Option<Vec<f64>> {
        let is_uniform = match self.node.op()? {
            "Conv" => own_pads(&self.node)?.iter().all(|&pad| pad == 0),
            op => op == "Gemm",
        };
        let mut sums = vec![0.0; count];
        self.weights.each_row(|[operand, result], row| {
            let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
            if let Some(slot) = sums.get_mut(result) {
                *slot += sum * element(&affine.addends, operand);
            }
        });
        is_uniform.then_some(sums)
    }
}

impl<'a> Weights<'a> {
    /// Calls `body` with the operand's and the result's channel, and the weights of this pair.
    fn each_row(&self, mut body: impl FnMut([usize; 2], &'a [f32])) {
        let [outer, second, inner] = self.dims;
        let weights = self.tensor.get::<f32>().unwrap_or_default();
        if weights.is_empty() {
            return;
        }
        let per_group = (outer / self.groups).max(1);
        for (outer_index, rows) in weights.chunks_exact(second * inner).enumerate() {
            for (inner_index, row) in rows.chunks_exact(inner).enumerate() {
                let first = outer_index % self.period;
                let other = outer_index / per_group * second + inner_index;
                let is_operand = self.first == Side::Operand;
                body(if is_operand { [first, other] } else { [other, first] }, row);
            }
        }
    }

    /// Returns the weights times the factor of their channel, if all are finite.
    fn scaled(&self, affine: &Affine, side: Side) -> Option<Tensor> {
        let mut buffer = Buffer::zeroed(self.tensor.desc().size_bytes()).ok()?;
        let new = elements_mut::<f32>(buffer.bytes_mut())?;
        let mut slots = new.iter_mut();
        self.each_row(|[operand, result], row| {
            let channel = if side == Side::Operand { operand } else { result };
            let factor = element(&affine.factors, channel);
            for (&weight, slot) in row.iter().zip(slots.by_ref()) {
                *slot = rounded(f64::from(weight) * factor);
            }
        });
        let are_finite = new.iter().all(|weight| weight.is_finite());
        let shape = self.tensor.desc().full_shape();
        are_finite.then(|| Tensor::from_buffer(DType::F32, shape, buffer).ok()).flatten()
    }

    /// Describes the scaling for a cache key.
    fn words(&self, affine: &Affine, side: Side) -> String {
        let Self { dims, period, first, groups, .. } = self;
        let is_first = *first == side;
        let factors: Vec<u8> =
            affine.factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
        format!("{dims:?} {period} {groups} {is_first} {:x}", sum128(&factors))
    }
}

/// Returns a constant f32 input.
fn floats<'a>(node: &Candidate<'a>, port: usize) -> Option<&'a Tensor> {
    node.tensor(port).filter(|tensor| tensor.dtype() == DType::F32)
}

/// Returns an element of a list, or the only element.
fn element(numbers: &[f64], index: usize) -> f64 {
    match numbers {
        [number] => *number,
        _ => numbers.get(index).copied().unwrap_or(f64::NAN),
    }
}

/// Returns the elements of a constant bias with `count` elements along its last axis.
fn bias_elements(node: &Candidate<'_>, port: usize, count: usize) -> Option<Vec<f64>> {
    let (bias, dims) = (node.constant::<f32>(port)?, node.input(port));
    if let [scalar] = bias {
        return Some(vec![f64::from(*scalar); count]);
    }
    let fits = bias.len() == count && dims.shape().last() == Some(&count);
    fits.then(|| bias.iter().copied().map(f64::from).collect())
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the weights' type")]
fn rounded(number: f64) -> f32 {
    number as f32
}
