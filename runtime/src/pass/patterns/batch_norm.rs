//! Batch normalizations that the convolution before them does with its weights.
//!
//! `(sum + b - mean) * f + B`, where `f = scale / sqrt(variance + epsilon)`, is the sum with weights times `f` and
//! `(b - mean) * f + B` for the bias. The node of the normalization stays, with the bytes of its input as its output.

use udo_api::{Shape, TensorDesc};

use super::Uses;
use crate::graph::{Node, ValueId};
use crate::memory::Tensor;
use crate::registry::Registry;
use crate::resolve::{ParamSetting, Resolved};

// The inputs of both operators.
const X: usize = 0;
const WEIGHTS: usize = 1;
const BIAS: usize = 2;
const STATISTICS: [usize; 4] = [1, 2, 3, 4];

/// Folds every normalization of f32 by constants into the convolution before it, where nobody else reads what
/// that makes.
pub fn fold(resolved: &mut Resolved, fixed: &mut [Option<TensorDesc>], registry: &Registry) {
    let Some(identity) = super::identity(registry) else { return };
    let uses = Uses::of(&resolved.graph);
    for at in 0..resolved.bindings.len() {
        let Some((maker, [weights, bias])) = folded(resolved, registry, &uses, at) else {
            continue;
        };
        let name = resolved.graph.nodes.get(at).map_or("", |n| n.name.as_str()).to_owned();
        let weights = resolved.add_constant(&format!("{name}.weights"), weights);
        let bias = resolved.add_constant(&format!("{name}.bias"), bias);
        if let Some(node) = resolved.graph.nodes.get_mut(maker) {
            node.inputs.truncate(BIAS);
            node.inputs.push(Some(bias));
            node.inputs[WEIGHTS] = Some(weights);
        }
        super::stand_aside(resolved, fixed, at, &identity);
    }
}

/// The convolution that the normalization at `at` can go into, and its new weights and bias.
fn folded(
    resolved: &Resolved,
    registry: &Registry,
    uses: &Uses,
    at: usize,
) -> Option<(usize, [Tensor; 2])> {
    let is = |at: usize, op: &str| {
        resolved.bindings.get(at).is_some_and(|binding| {
            registry.is_builtin(binding.package) && binding.op.schema().name() == op
        })
    };
    let node = resolved.graph.nodes.get(at).filter(|_| is(at, "BatchNormalization"))?;
    let sums = node.input(X)?;
    let maker = uses.maker(sums).filter(|&maker| is(maker, "Conv"))?;
    let conv = resolved.graph.nodes.get(maker)?;
    if !super::is_fixed(resolved, node)
        || uses.only_reader(sums) != Some(at)
        || node.outputs.iter().skip(1).any(Option::is_some)
    {
        return None;
    }
    let numbers = |node: &Node, port| constant(resolved, node.input(port));
    let weights = resolved.constant(conv.input(WEIGHTS))?;
    let own = weights.get::<f32>()?;
    let [scale, moved, mean, variance] = STATISTICS.map(|port| numbers(node, port));
    let (scale, moved, mean, variance) = (scale?, moved?, mean?, variance?);
    let before = match conv.input(BIAS) {
        Some(bias) => constant(resolved, Some(bias))?.to_vec(),
        None => vec![0.0; scale.len()],
    };
    let setting =
        resolved.bindings.get(at)?.params.settings().iter().find(|(name, _)| *name == "epsilon");
    let Some((_, ParamSetting::Float(epsilon))) = setting else { return None };
    #[expect(clippy::cast_possible_truncation, reason = "the operator computes in f32")]
    let epsilon = *epsilon as f32;
    let each = own.len().checked_div(scale.len()).filter(|&each| each > 0)?;
    let factors: Vec<f32> =
        scale.iter().zip(variance).map(|(scale, v)| scale / (v + epsilon).sqrt()).collect();
    let rows = own.chunks_exact(each).zip(&factors);
    let new: Vec<f32> = rows.flat_map(|(row, f)| row.iter().map(move |w| w * f)).collect();
    let ends = before.iter().zip(mean).zip(factors.iter().zip(moved));
    let bias: Vec<f32> = ends.map(|((b, mean), (f, moved))| (b - mean) * f + moved).collect();
    let weights = Tensor::of(weights.desc().full_shape(), &new).ok()?;
    let bias = Tensor::of(Shape::new(&[bias.len()]).ok()?, &bias).ok()?;
    Some((maker, [weights, bias]))
}

fn constant(resolved: &Resolved, value: Option<ValueId>) -> Option<&[f32]> {
    resolved.constant(value)?.get::<f32>()
}
