//! Rows with a gap between them, wherever all kernels that touch a value can work on such rows.

use super::values::Drawn;
use super::{RowsWithin, SlotId, Step, takes_strided_rows};

/// Puts `gap` elements before each row of every value that allows it.
pub(super) fn insert(drawn: &mut Drawn, gap: usize) {
    if gap == 0 {
        return;
    }
    for slot in (0..drawn.slots.len()).map(SlotId) {
        let Some((rows, bytes)) = spaced(drawn, slot, gap) else { continue };
        drawn.slots[slot.0].1 = bytes;
        for operand in drawn.steps.iter_mut().flat_map(Step::operands_mut) {
            if operand.slot() == Some(slot) {
                operand.rows = Some(rows);
            }
        }
    }
}

/// How the rows of a slot lie with a gap before each, and the bytes of all of them.
fn spaced(drawn: &Drawn, slot: SlotId, gap: usize) -> Option<(RowsWithin, usize)> {
    let mut operands = drawn.steps.iter().flat_map(Step::operands);
    let desc = operands.find(|o| o.slot() == Some(slot))?.desc;
    let (&cols, outer) = desc.shape().split_last()?;
    if !takes_strided_rows(drawn, None, slot, &desc) {
        return None;
    }
    let element_bytes = desc.dtype()?.size_bytes();
    let stride = cols.checked_add(gap)?;
    let len = outer.iter().try_fold(stride, |len, &dim| len.checked_mul(dim))?;
    let bytes = len.checked_mul(element_bytes)?;
    Some((RowsWithin { offset_bytes: gap.checked_mul(element_bytes)?, stride }, bytes))
}
