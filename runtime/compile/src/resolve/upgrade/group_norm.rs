//! `GroupNormalization` before operator set 21, with one scale and bias for each group instead of each channel.

use udo_api::Shape;

use super::edit::Edit;
use udo_engine::cores::convert;

/// Repeats the scale and bias of each group for its channels; both must be constants.
pub(super) fn per_channel(edit: &mut Edit<'_>) -> Result<(), String> {
    let channels = edit.input(0).shape().get(1).copied().unwrap_or(0);
    for (port, name) in [(1, "scale"), (2, "bias")] {
        let found = edit.input(port);
        let groups = found.len();
        let times = channels.checked_div(groups).filter(|times| times * groups == channels);
        let times = times.ok_or_else(|| {
            format!(
                "input {port} is {found}, expected one number for each group of {channels} channels"
            )
        })?;
        let known = edit.graph.known(edit.node.input(port));
        let known = known.ok_or_else(|| {
            format!("input {port} is computed, expected a constant in the model: before operator set 21 it has an element for each group")
        })?;
        let numbers: Vec<f64> = match (known.get::<f32>(), known.get::<f64>()) {
            (Some(numbers), _) => numbers.iter().copied().map(f64::from).collect(),
            (None, Some(numbers)) => numbers.to_vec(),
            (None, None) => return Err(format!("input {port} is {found}, expected f32 or f64")),
        };
        let each: Vec<f64> =
            numbers.into_iter().flat_map(|n| std::iter::repeat_n(n, times)).collect();
        let shape = Shape::new(&[channels]).map_err(|e| e.to_string())?;
        let tensor = convert::from_numbers(known.dtype(), shape, &each);
        edit.set_constant(port, name, tensor.map_err(|e| e.to_string())?);
    }
    Ok(())
}
