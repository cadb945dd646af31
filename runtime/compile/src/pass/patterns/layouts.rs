//! Layout rules of nodes for channels-last operands that operators' own declarations (`Facts`) do not cover. The layout
//! pass looks up its rules here.

use crate::pass::Candidate;
use crate::resolve::LayoutRule;

/// Returns the rule of a rank-4 node that quantizes, dequantizes, transposes or concatenates quantized values.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<LayoutRule> {
    let rule = match node.op()? {
        "DequantizeLinear" | "QuantizeLinear" => {
            // Scales of blocks vary along all axes.
            let is_vector = |port: usize| node.input(port).rank() <= 1;
            (is_vector(1) && is_vector(2)).then_some(LayoutRule::Axis)?
        }
        "Transpose" => LayoutRule::Order,
        "QLinearConcat" => LayoutRule::Join,
        _ => return None,
    };
    (node.makes_one_fixed() && node.output().rank() == 4).then_some(rule)
}
