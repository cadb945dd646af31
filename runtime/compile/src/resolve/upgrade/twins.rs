//! Operators of ONNX Runtime that ONNX has in another form.

use udo_api::DType;

use super::edit::{Edit, new_node, with_int};
use udo_graph::graph::{Attr, ValueId};

/// `RotaryEmbedding`: rotates pairs by their position, or by the first position plus their offset from it.
pub(super) fn rotary(edit: &mut Edit<'_>) -> Result<(), String> {
    edit.take("scale");
    if edit.take_int("is_packed_batching")?.unwrap_or(0) != 0 {
        return Err(
            "attribute \"is_packed_batching\" is 1, expected sequences of one length".to_owned()
        );
    }
    let (x, cos) = (edit.input(0), edit.input(2));
    let heads = edit.take_int("num_heads")?.unwrap_or(0);
    let turned = edit.take_int("rotary_embedding_dim")?.unwrap_or(0);
    let angles = cos.shape().get(1).copied().unwrap_or(0);
    let (length, heads) = match *x.shape() {
        [_, length, hidden] if heads == 0 => {
            let heads = hidden.checked_div(angles.saturating_mul(2)).unwrap_or(0);
            (length, i64::try_from(heads).unwrap_or(0))
        }
        [_, length, _] | [_, _, length, _] => (length, heads),
        _ => return Err(format!("input 0 is {x}, expected rank 3 or 4")),
    };
    let positions = positions(edit, x.shape().first().copied().unwrap_or(0), length)?;
    let inputs = [edit.required(0)?, edit.required(2)?, edit.required(3)?, positions];
    edit.end("RotaryEmbedding", &inputs);
    if x.rank() == 3 {
        edit.set("num_heads", Attr::Int(heads));
    }
    if turned != 0 {
        edit.set("rotary_embedding_dim", Attr::Int(turned));
    }
    Ok(())
}

/// Returns a position for each place of each sequence.
fn positions(edit: &mut Edit<'_>, batch: usize, length: usize) -> Result<ValueId, String> {
    let (given, found) = (edit.required(1)?, edit.input(1));
    if found.rank() == 2 {
        return Ok(given);
    }
    let places: Vec<f64> = (0u32..).map(f64::from).take(length).collect();
    let places = edit.numbers_like(1, "places", &[length], &places)?;
    let places = edit.first("positions.one", new_node("Add", &[given, places]), None)?;
    let whole = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
    let all = edit.list("positions.extents", &[whole(batch), whole(length)])?;
    edit.first("positions", new_node("Expand", &[places, all]), None)
}

/// `Range`: scalars may be lists of one element, and the delta is optional.
pub(super) fn range(edit: &mut Edit<'_>) -> Result<(), String> {
    let none = edit.list("none", &[])?;
    let mut inputs = Vec::new();
    for (port, name) in ["start", "limit", "delta"].into_iter().enumerate() {
        inputs.push(match edit.node.input(port) {
            None if port == 2 => edit.number("delta", 1.0)?,
            None => return Err(format!("input {port} is missing")),
            Some(number) if edit.input(port).rank() == 0 => number,
            Some(number) => edit.first(name, new_node("Reshape", &[number, none]), None)?,
        });
    }
    edit.end("Range", &inputs);
    Ok(())
}

/// Operators with the same name and form in ONNX.
pub(super) fn same(edit: &mut Edit<'_>) -> Result<(), String> {
    edit.required(0)?;
    let (op, inputs) = (edit.node.op.clone(), edit.node.inputs.clone());
    edit.end(&op, &[]);
    edit.node.inputs = inputs;
    Ok(())
}

/// `Unique`: distinct elements in order of appearance, their indices and their counts.
pub(super) fn unique(edit: &mut Edit<'_>) -> Result<(), String> {
    let x = edit.required(0)?;
    let outputs = &mut edit.node.outputs;
    outputs.insert(outputs.len().min(1), None);
    edit.end("Unique", &[x]);
    edit.set("sorted", Attr::Int(0));
    Ok(())
}

/// `ExpandDims`: inserts an axis at the position of a scalar input.
pub(super) fn expand_dims(edit: &mut Edit<'_>) -> Result<(), String> {
    let (x, axis, one) = (edit.required(0)?, edit.required(1)?, edit.list("one", &[1])?);
    let axis = edit.first("axis", new_node("Reshape", &[axis, one]), None)?;
    let to = i64::from(DType::I64.onnx());
    let wide = edit.first("axes", with_int(new_node("Cast", &[axis]), "to", to), None)?;
    edit.end("Unsqueeze", &[x, wide]);
    Ok(())
}

/// `Pad`: pads may be a matrix of one row, and the value a list of one element.
pub(super) fn pad(edit: &mut Edit<'_>) -> Result<(), String> {
    let (x, mut pads) = (edit.required(0)?, edit.required(1)?);
    let (all, none) = (edit.list("all", &[-1])?, edit.list("none", &[])?);
    if edit.input(1).rank() != 1 {
        pads = edit.first("pads", new_node("Reshape", &[pads, all]), None)?;
    }
    let mut inputs = vec![x, pads];
    if let Some(value) = edit.node.input(2) {
        let is_list = edit.input(2).rank() != 0;
        let scalar = new_node("Reshape", &[value, none]);
        inputs.push(if is_list { edit.first("value", scalar, None)? } else { value });
    }
    edit.end("Pad", &inputs);
    Ok(())
}

/// `GridSample`: modes have other names.
pub(super) fn grid_sample(edit: &mut Edit<'_>) -> Result<(), String> {
    let mode = match edit.take_text("mode")?.as_deref() {
        None | Some("bilinear") => "linear",
        Some("bicubic") => "cubic",
        Some("nearest") => "nearest",
        Some(other) => {
            return Err(format!(
                "attribute \"mode\" is {other:?}, expected \"bilinear\", \"nearest\" or \"bicubic\""
            ));
        }
    };
    same(edit)?;
    edit.set("mode", Attr::Text(mode.to_owned()));
    Ok(())
}

/// `CDist`: distances between the rows of two matrices.
pub(super) fn c_dist(edit: &mut Edit<'_>) -> Result<(), String> {
    let op = match edit.take_text("metric")?.as_deref() {
        None | Some("sqeuclidean") => "ReduceSumSquare",
        Some("euclidean") => "ReduceL2",
        Some(other) => {
            return Err(format!(
                "attribute \"metric\" is {other:?}, expected \"sqeuclidean\" or \"euclidean\""
            ));
        }
    };
    let mut sides = Vec::new();
    for (port, (name, axis)) in [("a", 1), ("b", 0)].into_iter().enumerate() {
        let (x, axes) = (edit.required(port)?, edit.list(&format!("{name}.axis"), &[axis])?);
        sides.push(edit.first(name, new_node("Unsqueeze", &[x, axes]), None)?);
    }
    let apart = edit.first("apart", new_node("Sub", &sides), None)?;
    let last = edit.list("last", &[2])?;
    edit.end(op, &[apart, last]);
    edit.set("keepdims", Attr::Int(0));
    Ok(())
}
