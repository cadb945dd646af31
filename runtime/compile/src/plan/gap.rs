//! Inserts gaps between the rows of tensors, for tests of kernels that support strided rows.

use super::lowered::Lowered;
use super::region::Region;
use super::{Operand, Step};

/// Puts `gap` elements before each row of every value whose kernels all support strided rows.
pub(super) fn insert(lowered: &mut Lowered, gap: usize) {
    if gap == 0 {
        return;
    }
    let operands = lowered.steps.iter().flat_map(Step::operands);
    // Tensors of in-place pairs stay as they are: both sides must have the same strides.
    let paired: Vec<_> = operands.filter(|o| o.in_place.is_some()).map(Operand::window).collect();
    let operands = lowered.steps.iter().flat_map(Step::operands);
    let candidates: Vec<_> = operands
        .filter(|operand| operand.desc.full_shape().is_fixed())
        .filter_map(|o| Some((o.window().filter(|_| !paired.contains(&o.window()))?, o.desc)))
        .collect();
    for (window, desc) in candidates {
        let Some(element_bytes) = desc.dtype().map(udo_api::DType::size_bytes) else { continue };
        lowered.windows.space(window, |region| {
            let gap_bytes = gap.checked_mul(element_bytes)?;
            let pitch = region.row.checked_add(gap_bytes)?;
            Some(Region { offset: gap_bytes, pitch, ..region })
        });
    }
}
