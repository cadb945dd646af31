//! Converts operators of ONNX Runtime to ONNX operators that compute the same and differ only in name, attributes or
//! shapes of inputs.

use udo_api::DType;

use super::edit::{Edit, new_node, with_int};
use udo_graph::graph::{Attr, ValueId};

/// `RotaryEmbedding`: input 1 has a position for each token, or only the first position of all sequences.
pub(super) fn rotary(edit: &mut Edit<'_>) -> Result<(), String> {
    edit.take("scale");
    if edit.take_int("is_packed_batching")?.unwrap_or(0) != 0 {
        return Err(
            "attribute \"is_packed_batching\" is 1, expected sequences of one length".to_owned()
        );
    }
    let (x, cos) = (edit.input(0), edit.input(2));
    let heads = edit.take_int("num_heads")?.unwrap_or(0);
    let rotated = edit.take_int("rotary_embedding_dim")?.unwrap_or(0);
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
    if rotated != 0 {
        edit.set("rotary_embedding_dim", Attr::Int(rotated));
    }
    Ok(())
}

/// Returns a position for each token of each sequence.
fn positions(edit: &mut Edit<'_>, batch: usize, length: usize) -> Result<ValueId, String> {
    let (positions, desc) = (edit.required(1)?, edit.input(1));
    if desc.rank() == 2 {
        return Ok(positions);
    }
    let offsets: Vec<f64> = (0u32..).map(f64::from).take(length).collect();
    let offsets = edit.numbers_like(1, "places", &[length], &offsets)?;
    let sequence = edit.first("positions.one", new_node("Add", &[positions, offsets]), None)?;
    let int = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
    let extents = edit.list("positions.extents", &[int(batch), int(length)])?;
    edit.first("positions", new_node("Expand", &[sequence, extents]), None)
}

/// `Range`: scalars may be lists of one element, and the delta is optional.
pub(super) fn range(edit: &mut Edit<'_>) -> Result<(), String> {
    let no_axes = edit.list("none", &[])?;
    let mut inputs = Vec::new();
    for (port, name) in ["start", "limit", "delta"].into_iter().enumerate() {
        inputs.push(match edit.node.input(port) {
            None if port == 2 => edit.number("delta", 1.0)?,
            None => return Err(format!("input {port} is missing")),
            Some(number) if edit.input(port).rank() == 0 => number,
            Some(number) => edit.first(name, new_node("Reshape", &[number, no_axes]), None)?,
        });
    }
    edit.end("Range", &inputs);
    Ok(())
}

/// Operators with the same name, inputs and attributes in ONNX: only the domain changes.
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
    let (x, axis, one_element) = (edit.required(0)?, edit.required(1)?, edit.list("one", &[1])?);
    let axis = edit.first("axis", new_node("Reshape", &[axis, one_element]), None)?;
    let to = i64::from(DType::I64.onnx());
    let axes = edit.first("axes", with_int(new_node("Cast", &[axis]), "to", to), None)?;
    edit.end("Unsqueeze", &[x, axes]);
    Ok(())
}

/// `Pad`: pads may be a matrix of one row, and the value a list of one element.
pub(super) fn pad(edit: &mut Edit<'_>) -> Result<(), String> {
    let (x, mut pads) = (edit.required(0)?, edit.required(1)?);
    let (one_axis, no_axes) = (edit.list("all", &[-1])?, edit.list("none", &[])?);
    if edit.input(1).rank() != 1 {
        pads = edit.first("pads", new_node("Reshape", &[pads, one_axis]), None)?;
    }
    let mut inputs = vec![x, pads];
    if let Some(value) = edit.node.input(2) {
        let is_list = edit.input(2).rank() != 0;
        let scalar = new_node("Reshape", &[value, no_axes]);
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
    // [m,1,k] - [1,n,k] broadcasts to the differences of all pairs of rows, [m,n,k].
    let mut operands = Vec::new();
    for (port, (name, axis)) in [("a", 1), ("b", 0)].into_iter().enumerate() {
        let (x, axes) = (edit.required(port)?, edit.list(&format!("{name}.axis"), &[axis])?);
        operands.push(edit.first(name, new_node("Unsqueeze", &[x, axes]), None)?);
    }
    let differences = edit.first("apart", new_node("Sub", &operands), None)?;
    let last_axis = edit.list("last", &[2])?;
    edit.end(op, &[differences, last_axis]);
    edit.set("keepdims", Attr::Int(0));
    Ok(())
}
