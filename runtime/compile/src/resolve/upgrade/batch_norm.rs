//! `BatchNormalization`: training is refused, and statistics per position become statistics per channel.

use super::edit::{Added, Edit, new_node};

pub(super) fn refuse_training(edit: &mut Edit<'_>) -> Result<(), String> {
    super::dropout::refuse_training(edit)
}

/// Converts statistics per position (`spatial` = 0) by turning all positions of an image into channels.
pub(super) fn from_positions(edit: &mut Edit<'_>) -> Result<(), String> {
    if edit.take_int("spatial")? != Some(0) {
        return Ok(());
    }
    let x = edit.input(0);
    let position = x.shape().get(1..).unwrap_or_default();
    for port in 1..5 {
        let desc = edit.input(port);
        if desc.shape() != position {
            return Err(format!(
                "input {port} is {desc}, expected {position:?} because attribute \"spatial\" is 0: a number for each position of {x}"
            ));
        }
    }
    let extent = |&n: &usize| i64::try_from(n).map_err(|e| e.to_string());
    let dims = position.iter().map(extent).collect::<Result<Vec<_>, _>>()?;
    let one_axis = edit.list("positions", &[-1])?;
    for (port, name) in (1..5).zip(["scale", "bias", "mean", "variance"]) {
        let flat = new_node("Reshape", &[edit.required(port)?, one_axis]);
        let flat = edit.first(name, flat, None)?;
        if let Some(input) = edit.node.inputs.get_mut(port) {
            *input = Some(flat);
        }
    }
    edit.before(0, &Added { op: "Flatten", list: None, attr: Some(("axis", 1)) })?;
    // A 0 keeps the extent of the batch.
    let shape = [&[0], &*dims].concat();
    edit.insert_after(0, &Added { op: "Reshape", list: Some(("shape", &shape)), attr: None })
}

/// Refuses outputs with statistics of the batch, which had other positions in older operator sets.
pub(super) fn refuse_statistics(edit: &mut Edit<'_>) -> Result<(), String> {
    let outputs = &mut edit.node.outputs;
    if let Some(index) = outputs.iter().skip(1).position(Option::is_some) {
        return Err(format!(
            "output {} is a statistic of the batch, which is for training",
            index + 1
        ));
    }
    outputs.truncate(1);
    Ok(())
}
