//! Fuses root-mean-square normalization (arXiv:1910.07467): y = x / sqrt(mean(x * x) + epsilon) * scale ->
//! RMSNormalization(x, scale).

use crate::pass::{Candidate, Operand, Replacement};
use udo_graph::graph::Attr;

use super::rows::{Squares, vector};

/// Returns the normalization whose last step is this node.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<Replacement> {
    if node.op()? != "Mul" {
        return None;
    }
    Candidate::either(|rows, scale| {
        let Squares { squared, dims, epsilon } = divided(&node.producer(rows)?)?;
        let scale = vector(node, scale, &dims)?;
        let axis = -i64::try_from(dims.len()).ok()?;
        Some(Replacement {
            attrs: vec![("axis", Attr::Int(axis)), ("epsilon", Attr::Float(f64::from(epsilon)))],
            ..Replacement::new("", "RMSNormalization", vec![Operand::Value(squared), scale])
        })
    })
}

/// Matches `x / sqrt(mean(x * x) + epsilon)`, or `x` times the reciprocal of the root.
fn divided(node: &Candidate<'_>) -> Option<Squares> {
    match node.op()? {
        "Div" => Squares::mean(&node.made_by(1, "Sqrt")?)
            .filter(|squares| node.input_id(0) == Some(squares.squared)),
        "Mul" => Candidate::either(|x, inverse| {
            let inverse = node.producer(inverse)?;
            let root = match inverse.op()? {
                "Reciprocal" => inverse.made_by(0, "Sqrt"),
                "Div" if inverse.scalar(0).is_some_and(|one| one.to_bits() == 1f32.to_bits()) => {
                    inverse.made_by(1, "Sqrt")
                }
                _ => None,
            };
            Squares::mean(&root?).filter(|squares| node.input_id(x) == Some(squares.squared))
        }),
        _ => None,
    }
}
