//! Batch normalization: what only training asks for is refused by name, and the rest is no longer said.

use super::edit::Edit;

pub(super) fn refuse_training(edit: &mut Edit<'_>) -> Result<(), String> {
    super::dropout::refuse_training(edit)
}

/// Statistics of single positions rather than of channels.
pub(super) fn refuse_positions(edit: &mut Edit<'_>) -> Result<(), String> {
    match edit.take_int("spatial")? {
        Some(0) => {
            Err("attribute \"spatial\" is 0, which asks for statistics of single positions"
                .to_owned())
        }
        Some(_) | None => Ok(()),
    }
}

/// What is made of the batch itself; the outputs had other places then.
pub(super) fn refuse_statistics(edit: &mut Edit<'_>) -> Result<(), String> {
    let outputs = &mut edit.node.outputs;
    if let Some(at) = outputs.iter().skip(1).position(Option::is_some) {
        return Err(format!(
            "output {} is a statistic of the batch, which asks for training",
            at + 1
        ));
    }
    outputs.truncate(1);
    Ok(())
}
