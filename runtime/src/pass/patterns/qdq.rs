//! Reads the fixed-point form of values from the model's `QuantizeLinear` and `DequantizeLinear` nodes.
//!
//! A real value that comes out of a dequantize node, or goes into a quantize node, has the encoding
//! that the node states. A fixed-point core may then hold it as codes.

use udo_api::{DType, Encoding, Facts, TensorDesc};

use crate::graph::{Node, ValueId};
use crate::memory::Tensor;
use crate::registry::Resolved;

/// The fixed-point form of each value that has one.
pub fn fixed_forms(resolved: &Resolved) -> Vec<Option<TensorDesc>> {
    let mut forms = vec![None; resolved.graph.values.len()];
    for node in &resolved.graph.nodes {
        match node.op.as_str() {
            "DequantizeLinear" => {
                note(&mut forms, resolved, node, node.output(0), node.input(0), Keep::Newer);
            }
            "QuantizeLinear" => {
                note(&mut forms, resolved, node, node.input(0), node.output(0), Keep::Older);
            }
            _ => {}
        }
    }
    spread(&mut forms, resolved);
    forms
}

/// Which of two encodings of one value stays.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    Older,
    Newer,
}

fn note(
    forms: &mut [Option<TensorDesc>],
    resolved: &Resolved,
    node: &Node,
    real: Option<ValueId>,
    codes: Option<ValueId>,
    keep: Keep,
) {
    let scale = resolved.constant(node.input(1)).and_then(one::<f32>);
    let zero_point = match node.input(2) {
        None => Some(0),
        Some(value) => resolved.constant(Some(value)).and_then(one_code),
    };
    let (Some(scale), Some(zero_point), Some(dtype)) =
        (scale, zero_point, resolved.desc(codes).dtype())
    else {
        return;
    };
    let desc = resolved.desc(real);
    if desc.dtype() != Some(DType::F32) || !(scale.is_finite() && scale > 0.0) {
        return;
    }
    let form = desc.with_dtype(dtype).with_encoding(Encoding { scale, zero_point });
    if let Some(slot) =
        real.and_then(|v| forms.get_mut(v.index())).filter(|s| s.is_none() || keep == Keep::Newer)
    {
        *slot = Some(form);
    }
}

fn one<T: udo_api::Element>(tensor: &Tensor) -> Option<T> {
    match tensor.get::<T>()? {
        [value] => Some(*value),
        _ => None,
    }
}

fn one_code(tensor: &Tensor) -> Option<i32> {
    one::<u8>(tensor)
        .map(i32::from)
        .or_else(|| one::<i8>(tensor).map(i32::from))
        .or_else(|| one::<u16>(tensor).map(i32::from))
        .or_else(|| one::<i16>(tensor).map(i32::from))
        .or_else(|| one::<i32>(tensor))
}

/// Operators that keep the encoding pass it on, forwards and then backwards.
fn spread(forms: &mut [Option<TensorDesc>], resolved: &Resolved) {
    let keeps = |index: usize| {
        resolved
            .bindings
            .get(index)
            .is_some_and(|b| b.op.schema().known_facts().has(Facts::SAME_ENCODING))
    };
    let mut pass = |from: Option<ValueId>, to: Option<ValueId>| {
        let Some(form) = from.and_then(|v| forms.get(v.index()).copied().flatten()) else { return };
        let (Some(encoding), Some(dtype)) = (form.encoding(), form.dtype()) else { return };
        let desc = resolved.desc(to);
        if desc.dtype() != Some(DType::F32) {
            return;
        }
        if let Some(slot) = to.and_then(|v| forms.get_mut(v.index())).filter(|s| s.is_none()) {
            *slot = Some(desc.with_dtype(dtype).with_encoding(encoding));
        }
    };
    let keepers: Vec<&Node> = resolved
        .graph
        .nodes
        .iter()
        .enumerate()
        .filter(|(i, _)| keeps(*i))
        .map(|(_, node)| node)
        .collect();
    for node in &keepers {
        pass(node.input(0), node.output(0));
    }
    for node in keepers.iter().rev() {
        pass(node.output(0), node.input(0));
    }
}
