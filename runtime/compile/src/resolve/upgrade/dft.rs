//! `DFT`: turns the axis, which was an attribute, into an input.

use super::edit::Edit;

/// Turns the attribute into input 2. Its default was the first axis of the signal.
pub(super) fn axis_to_input(edit: &mut Edit<'_>) -> Result<(), String> {
    let axis = edit.take_int("axis")?.unwrap_or(1);
    edit.set_ints(2, "axis", &[axis])
}
