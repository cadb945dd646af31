//! `Slice`: turns starts, ends and axes, which were attributes, into inputs.

use super::edit::Edit;

pub(super) fn bounds_to_inputs(edit: &mut Edit<'_>) -> Result<(), String> {
    for (port, name) in [(1, "starts"), (2, "ends"), (3, "axes")] {
        if let Some(values) = edit.take_ints(name)? {
            edit.set_ints(port, name, &values)?;
        }
    }
    Ok(())
}
