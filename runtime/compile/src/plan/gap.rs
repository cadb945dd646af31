//! Inserts gaps between rows, for tests of strided tensors.

use super::lowered::Lowered;
use super::region::Region;
use super::{Operand, Step};

/// Puts `gap` elements before each row of every value whose kernels all support strided rows.
pub(super) fn insert(lowered: &mut Lowered, gap: usize) {
    if gap == 0 {
        return;
    }
    let operands = lowered.steps.iter().flat_map(Step::operands);
    let paired: Vec<_> = operands.filter(|o| o.in_place.is_some()).map(Operand::window).collect();
    let operands = lowered.steps.iter().flat_map(Step::operands);
    let elements: Vec<_> = operands
        .filter(|operand| operand.desc.full_shape().is_fixed())
        .filter_map(|o| Some((o.window().filter(|_| !paired.contains(&o.window()))?, o.desc)))
        .collect();
    for (window, desc) in elements {
        let Some(element) = desc.dtype().map(udo_api::DType::size_bytes) else { continue };
        lowered.windows.space(window, |region| {
            let before = gap.checked_mul(element)?;
            let pitch = region.row.checked_add(before)?;
            Some(Region { offset: before, pitch, ..region })
        });
    }
}
