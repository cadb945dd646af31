//! Upgrades broadcasting from before operator set 7, where attribute `axis` aligned the second operand with the first.

use udo_api::resolve_axis;

use super::edit::{Added, Edit};

/// Appends axes of extent 1 to the second operand, one for each axis of the first operand after the aligned ones.
pub(super) fn align(edit: &mut Edit<'_>) -> Result<(), String> {
    edit.take("broadcast");
    let Some(axis) = edit.take_int("axis")? else { return Ok(()) };
    let (a, b) = (edit.input(0), edit.input(1));
    let error =
        || format!("input 1 is {b}, expected a shape that fits into {a} from axis {axis} on");
    let first_axis = resolve_axis(axis, a.rank()).ok_or_else(error)?;
    let end =
        a.rank().checked_sub(first_axis).filter(|&left| left >= b.rank()).ok_or_else(error)?;
    let new_axes = (b.rank()..end).map(i64::try_from).collect::<Result<Vec<_>, _>>();
    let new_axes = new_axes.map_err(|_| error())?;
    if new_axes.is_empty() {
        return Ok(());
    }
    edit.before(1, &Added { op: "Unsqueeze", list: Some(("axes", &new_axes)), attr: None })
}

/// Adds axes of extent 1 to a vector of slopes per channel, for the axes after the channels.
pub(super) fn slopes_of_channels(edit: &mut Edit<'_>) -> Result<(), String> {
    let (x, slopes) = (edit.input(0), edit.input(1));
    if slopes.rank() != 1 || slopes.len() == 1 || x.rank() < 3 {
        return Ok(());
    }
    let new_axes = (1..x.rank() - 1).map(i64::try_from).collect::<Result<Vec<_>, _>>();
    let new_axes = new_axes.map_err(|_| format!("input 0 is {x}, which has too many axes"))?;
    edit.before(1, &Added { op: "Unsqueeze", list: Some(("axes", &new_axes)), attr: None })
}
