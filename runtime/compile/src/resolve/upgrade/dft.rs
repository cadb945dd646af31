//! The Fourier transform, whose axis was an attribute.

use super::edit::Edit;

/// The attribute becomes input 2; without one, the axis was the first of a signal.
pub(super) fn axis_to_input(edit: &mut Edit<'_>) -> Result<(), String> {
    let axis = edit.take_int("axis")?.unwrap_or(1);
    edit.set_ints(2, "axis", &[axis])
}
