//! Upgrades `Pad`: turns the pads and the pad value, which were attributes, into inputs.

use super::edit::Edit;
use udo_graph::graph::Attr;

/// Renames the pads attribute of operator set 1.
pub(super) fn rename(edit: &mut Edit<'_>) -> Result<(), String> {
    if let Some(pads) = edit.take_ints("paddings")? {
        edit.set("pads", Attr::Ints(pads));
    }
    Ok(())
}

/// Turns the attributes into inputs 1 and 2.
pub(super) fn attributes_to_inputs(edit: &mut Edit<'_>) -> Result<(), String> {
    if let Some(pads) = edit.take_ints("pads")? {
        edit.set_ints(1, "pads", &pads)?;
    }
    if let Some(value) = edit.take_float("value")? {
        edit.set_number(2, "constant_value", value)?;
    }
    Ok(())
}
