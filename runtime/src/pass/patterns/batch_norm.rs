//! Batch normalizations that the convolution before them does with its weights.
//!
//! `(sum + b - mean) * f + B`, where `f = scale / sqrt(variance + epsilon)`, is the sum with weights times `f` and
//! `(b - mean) * f + B` for the bias.

use udo_api::Shape;

use crate::memory::Tensor;
use crate::pass::{Candidate, Fusion};

// The inputs of both operators.
const X: usize = 0;
const WEIGHTS: usize = 1;
const BIAS: usize = 2;
const STATISTICS: [usize; 4] = [1, 2, 3, 4];

/// The convolution of f32 before, with its new weights and bias.
pub(in crate::pass) fn fold(node: &Candidate<'_>) -> Option<Fusion> {
    if node.op()? != "BatchNormalization" || !node.makes_one_fixed() {
        return None;
    }
    let conv = node.before(X).filter(|before| before.op() == Some("Conv"))?;
    let own = conv.constant::<f32>(WEIGHTS)?;
    let [scale, moved, mean, variance] = STATISTICS.map(|port| node.constant::<f32>(port));
    let (scale, moved, mean, variance) = (scale?, moved?, mean?, variance?);
    let before = match conv.node().node.input(BIAS) {
        Some(_) => conv.constant::<f32>(BIAS)?.to_vec(),
        None => vec![0.0; scale.len()],
    };
    #[expect(clippy::cast_possible_truncation, reason = "the operator computes in f32")]
    let epsilon = node.float("epsilon")? as f32;
    let each = own.len().checked_div(scale.len()).filter(|&each| each > 0)?;
    let factors: Vec<f32> =
        scale.iter().zip(variance).map(|(scale, v)| scale / (v + epsilon).sqrt()).collect();
    let rows = own.chunks_exact(each).zip(&factors);
    let new: Vec<f32> = rows.flat_map(|(row, f)| row.iter().map(move |w| w * f)).collect();
    let ends = before.iter().zip(mean).zip(factors.iter().zip(moved));
    let bias: Vec<f32> = ends.map(|((b, mean), (f, moved))| (b - mean) * f + moved).collect();
    let weights = Tensor::of(conv.tensor(WEIGHTS)?.desc().full_shape(), &new).ok()?;
    let bias = Tensor::of(Shape::new(&[bias.len()]).ok()?, &bias).ok()?;
    let constants = vec![(WEIGHTS, weights), (BIAS, bias)];
    Some(Fusion::Constants { into: conv.id(), constants })
}
