//! Upgrades `Dropout` in inference, which passes all elements on: its ratio has no effect, and its mask is all ones.

use super::cast;
use super::edit::{Added, Edit};

/// Refuses training. A missing attribute means training by the specification, but models for inference omit it.
pub(super) fn refuse_training(edit: &mut Edit<'_>) -> Result<(), String> {
    match edit.take_int("is_test")? {
        Some(0) => Err("attribute \"is_test\" is 0, which is for training".to_owned()),
        Some(_) | None => Ok(()),
    }
}

/// Casts the mask output, now bool, to the type of the data, which it had in these versions.
pub(super) fn mask_to_data_type(edit: &mut Edit<'_>) -> Result<(), String> {
    let number = edit.input(0).dtype().and_then(cast::number_of);
    let number = number.ok_or_else(|| format!("input 0 is {}, expected numbers", edit.input(0)))?;
    edit.insert_after(1, &Added { op: "Cast", list: None, attr: Some(("to", number)) })
}

/// Turns the attribute into an input.
pub(super) fn ratio_to_input(edit: &mut Edit<'_>) -> Result<(), String> {
    match edit.take_float("ratio")? {
        Some(ratio) => edit.set_number(1, "ratio", ratio),
        None => Ok(()),
    }
}
