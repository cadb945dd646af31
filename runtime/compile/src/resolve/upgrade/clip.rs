//! `Clip`: turns the bounds, which were attributes, into inputs.

use super::edit::Edit;

/// Turns attributes `min` and `max` into inputs 1 and 2.
pub(super) fn bounds_to_inputs(edit: &mut Edit<'_>) -> Result<(), String> {
    for (port, name) in [(1, "min"), (2, "max")] {
        if let Some(bound) = edit.take_float(name)? {
            edit.set_number(port, name, bound)?;
        }
    }
    Ok(())
}
