//! `TopK`: turns k, which was an attribute, into an input.

use super::edit::Edit;

/// Turns the attribute into input 1.
pub(super) fn count_to_input(edit: &mut Edit<'_>) -> Result<(), String> {
    let k = edit.take_int("k")?.ok_or("attribute \"k\" is missing")?;
    edit.set_ints(1, "k", &[k])
}
