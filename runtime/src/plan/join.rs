//! Joins in place: producers write their rows straight into the joined tensor, and the join is left out.
//!
//! Only along the last axis, where the parts of a row lie one after the other, and only between
//! kernels that declare `ROWS_STRIDED`.

use super::values::Drawn;
use super::{Place, RowsWithin, SlotId, Step, takes_strided_rows};

/// Leaves out every join that its neighbours can do without.
pub(super) fn elide(drawn: &mut Drawn) {
    let mut index = 0;
    while index < drawn.steps.len() {
        match parts(drawn, index) {
            Some((whole, parts)) => {
                redirect(drawn, whole, &parts);
                remove(drawn, index);
            }
            None => index += 1,
        }
    }
}

/// A part of the joined tensor: its slot, and where its rows go.
struct Part {
    slot: SlotId,
    rows: RowsWithin,
}

/// The joined slot and its parts, if the join at `index` can be left out.
fn parts(drawn: &Drawn, index: usize) -> Option<(SlotId, Vec<Part>)> {
    let step = drawn.steps.get(index).filter(|s| s.joins)?;
    let [output] = step.outputs.as_slice() else { return None };
    // A join that says in each run how far it got has to run.
    let whole = output.slot().filter(|_| output.desc.full_shape().is_fixed())?;
    let (&stride, outer) = output.desc.shape().split_last()?;
    let element_bytes = output.desc.dtype()?.size_bytes();
    let mut column = 0;
    let mut parts = Vec::with_capacity(step.inputs.len());
    for input in &step.inputs {
        let (&cols, rows) = input.desc.shape().split_last()?;
        let slot =
            input.slot().filter(|_| rows == outer && input.desc.dtype() == output.desc.dtype())?;
        let once = parts.iter().all(|p: &Part| p.slot != slot);
        let plain = input.rows.is_none() && output.rows.is_none();
        let encoded_alike = input.desc.encoding() == output.desc.encoding();
        if !once
            || !plain
            || !encoded_alike
            || !takes_strided_rows(drawn, Some(index), slot, &input.desc)
        {
            return None;
        }
        parts
            .push(Part { slot, rows: RowsWithin { offset_bytes: column * element_bytes, stride } });
        column += cols;
    }
    let memory = drawn.slots.get(whole.0)?.0;
    let near = parts.iter().all(|p| drawn.slots.get(p.slot.0).is_some_and(|s| s.0 == memory));
    (column == stride && near).then_some((whole, parts))
}

fn redirect(drawn: &mut Drawn, whole: SlotId, parts: &[Part]) {
    for operand in drawn.steps.iter_mut().flat_map(Step::operands_mut) {
        let part = parts.iter().find(|p| operand.slot() == Some(p.slot));
        if let Some(part) = part {
            operand.place = Some(Place::Slot(whole));
            operand.rows = Some(part.rows);
        }
    }
}

/// Takes a step out, and lowers every number that counts steps behind it.
fn remove(drawn: &mut Drawn, index: usize) {
    drawn.steps.remove(index);
    let ports = drawn.inputs.iter_mut().chain(&mut drawn.outputs).map(|p| &mut p.operand);
    for operand in drawn.steps.iter_mut().flat_map(Step::operands_mut).chain(ports) {
        if let Some((step, _)) = operand.shaped_by.as_mut().filter(|(step, _)| *step > index) {
            *step -= 1;
        }
    }
}
