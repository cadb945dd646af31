//! The node `TopK`, whose number of elements was an attribute.

use super::edit::Edit;

/// The attribute becomes input 1.
pub(super) fn count_to_input(edit: &mut Edit<'_>) -> Result<(), String> {
    let k = edit.take_int("k")?.ok_or("attribute \"k\" is missing")?;
    edit.set_ints(1, "k", &[k])
}
