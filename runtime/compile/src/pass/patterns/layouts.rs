//! What nodes make of operands whose channels lie last, beyond what their operators say.

use crate::pass::Candidate;
use crate::resolve::LayoutRule;

/// That of nodes of four axes that quantize, transpose, or join quantized values.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<LayoutRule> {
    let rule = match node.op()? {
        "DequantizeLinear" | "QuantizeLinear" => {
            // Scales of blocks lie along all axes.
            let is_vector = |port: usize| node.input(port).rank() <= 1;
            (is_vector(1) && is_vector(2)).then_some(LayoutRule::Axis)?
        }
        "Transpose" => LayoutRule::Order,
        "QLinearConcat" => LayoutRule::Join,
        _ => return None,
    };
    (node.makes_one_fixed() && node.output().rank() == 4).then_some(rule)
}
