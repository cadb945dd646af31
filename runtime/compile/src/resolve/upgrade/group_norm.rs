//! `GroupNormalization` before operator set 21, with one scale and bias for each group instead of each channel.

use udo_api::Shape;

use super::edit::Edit;
use udo_engine::cores::convert;

/// Repeats the scale and bias of each group for its channels; both must be constants.
pub(super) fn per_channel(edit: &mut Edit<'_>) -> Result<(), String> {
    let channels = edit.input(0).shape().get(1).copied().unwrap_or(0);
    for (port, name) in [(1, "scale"), (2, "bias")] {
        let desc = edit.input(port);
        let groups = desc.len();
        let group_len = channels.checked_div(groups).filter(|len| len * groups == channels);
        let group_len = group_len.ok_or_else(|| {
            format!(
                "input {port} is {desc}, expected one number for each group of {channels} channels"
            )
        })?;
        let constant = edit.graph.known(edit.node.input(port));
        let constant = constant.ok_or_else(|| {
            format!("input {port} is computed, expected a constant in the model: before operator set 21 it has an element for each group")
        })?;
        let numbers: Vec<f64> = match (constant.get::<f32>(), constant.get::<f64>()) {
            (Some(numbers), _) => numbers.iter().copied().map(f64::from).collect(),
            (None, Some(numbers)) => numbers.to_vec(),
            (None, None) => return Err(format!("input {port} is {desc}, expected f32 or f64")),
        };
        let repeated: Vec<f64> =
            numbers.into_iter().flat_map(|n| std::iter::repeat_n(n, group_len)).collect();
        let shape = Shape::new(&[channels]).map_err(|e| e.to_string())?;
        let tensor = convert::from_numbers(constant.dtype(), shape, &repeated);
        edit.set_constant(port, name, tensor.map_err(|e| e.to_string())?);
    }
    Ok(())
}
