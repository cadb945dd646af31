//! Bias correction (Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019): b' = b
//! - sum(e * mean(x)), where e is the rounding error of the weights.

use std::collections::HashMap;

use super::calibrate::{Calibration, Means};
use super::insert::Constants;
use super::operators::{GROUPS, NumberAttrs, TRANSPOSED};
use super::sites::{Constant, Sites};
use super::{QuantError, Quantizer};
use udo_graph::graph::{Graph, Node, NodeId, ValueId};
use udo_graph::memory::Tensor;

/// A product with a bias that can be corrected.
struct Product<'a> {
    node: &'a Node,
    id: NodeId,
    operand: ValueId,
    weights: ValueId,
    tensor: &'a Tensor,
    axis: Option<usize>,
    bias: Option<usize>,
}

fn products<'a>(graph: &'a Graph, sites: &'a Sites) -> impl Iterator<Item = Product<'a>> {
    sites.constants.iter().filter_map(|(&(id, port), &constant)| {
        let Constant::Weights { axis, bias } = constant else { return None };
        let node = graph.nodes.get(id.index()).filter(|_| port == 1 && bias.is_some())?;
        let (operand, weights) = (node.input(0)?, node.input(1)?);
        let tensor = sites.known.get(&weights)?;
        sites.of.get(operand).copied().flatten()?;
        Some(Product { node, id, operand, weights, tensor, axis, bias })
    })
}

/// Returns the operands whose means along an axis are needed.
pub(super) fn needed(graph: &Graph, sites: &Sites) -> HashMap<ValueId, usize> {
    // The channels of images and of rows are at axis 1.
    products(graph, sites).map(|product| (product.operand, 1)).collect()
}

/// Returns the corrected biases.
///
/// # Errors
/// There is not enough memory.
pub(super) fn correct(
    of: &Quantizer,
    calibration: &Calibration,
    constants: &Constants<'_>,
    scale_of: impl Fn(ValueId) -> Option<f32>,
) -> Result<HashMap<NodeId, Vec<f32>>, QuantError> {
    let mut biases = HashMap::new();
    for product in products(&of.graph, &of.sites) {
        let means = calibration.get(product.operand).and_then(|of| of.means.as_ref());
        let (Some(means), Some(scale)) = (means.map(Means::means), scale_of(product.operand))
        else {
            continue;
        };
        let own = match product.bias.and_then(|port| product.node.input(port)) {
            Some(id) => match of.sites.known.get(&id).and_then(Tensor::get::<f32>) {
                Some(bias) => bias.to_vec(),
                None => continue,
            },
            None => Vec::new(),
        };
        let name = &of.graph.value(product.weights)?.name;
        let fitted = (!own.is_empty()).then_some((own.as_slice(), scale));
        let stored = constants.weights(name, product.tensor, product.axis, fitted)?;
        let (Some(exact), rounded) = (product.tensor.get::<f32>(), stored.numbers()) else {
            continue;
        };
        let errors = exact.iter().zip(&rounded).map(|(exact, rounded)| rounded - exact);
        let Some(moved) = moved(&product, &errors.collect::<Vec<f32>>(), &means) else { continue };
        if !own.is_empty() && own.len() != moved.len() {
            continue;
        }
        let own = own.into_iter().chain(std::iter::repeat(0.0));
        let bias =
            own.zip(&moved).map(|(own, moved)| super::range::to_single(f64::from(own) - moved));
        biases.insert(product.id, bias.collect());
    }
    Ok(biases)
}

/// Returns the shift of each result's mean due to errors of the weights.
fn moved(product: &Product<'_>, errors: &[f32], means: &[f64]) -> Option<Vec<f64>> {
    let dims = product.tensor.dims();
    let int = |name| usize::try_from(product.node.int_attr(name)?).ok();
    let (&first, &second) = (dims.first()?, dims.get(1)?);
    let window: usize = dims.iter().skip(2).product();
    match product.axis? {
        // The weights of each result, by channel of the operand in its group.
        0 if dims.len() > 2 || int(TRANSPOSED) == Some(1) => {
            let per_group = first / int(GROUPS).unwrap_or(1).max(1);
            let result = |at: usize| {
                let channels = at / per_group.max(1) * second..;
                let rows = errors.get(at * second * window..)?.chunks(window.max(1)).take(second);
                let pairs = rows.zip(channels).map(|(row, channel)| {
                    let error: f64 = row.iter().copied().map(f64::from).sum();
                    Some(error * means.get(channel)?)
                });
                pairs.sum::<Option<f64>>()
            };
            (0..first).map(result).collect()
        }
        // A matrix with a row for each channel of the operand.
        1 if dims.len() == 2 && means.len() == first => {
            let mut moved = vec![0.0; second];
            for (row, mean) in errors.chunks(second.max(1)).zip(means) {
                for (moved, error) in moved.iter_mut().zip(row) {
                    *moved += f64::from(*error) * mean;
                }
            }
            Some(moved)
        }
        _ => None,
    }
}
