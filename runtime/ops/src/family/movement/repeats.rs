//! Broadcasting a tensor to a larger shape, as Expand does: a [`Walk`] repeats the elements of an axis.

use udo_api::{Bits, ExecError, Io, MAX_RANK};

use super::{Walk, Walks};

/// Broadcasts input 0 to `target`, and sets the shape of output 0.
pub(crate) fn expand<B: Bits>(io: Io<'_>, target: &[usize]) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let (x, dims) = (inputs.get_bits::<B>(0)?, inputs.shape(0)?);
    let (walks, rank) = repeats(dims, target)
        .map_err(|(axis, extent)| ExecError::bad_value(extent as i64, axis))?;
    let extents = walks.map(|walk| walk.len);
    outputs.set_shape(0, &extents[..rank])?;
    let y = outputs.take_bits::<B>(0)?;
    Walks::new(walks[..rank].iter().copied()).copy(parallel, x, y, B::default())
}

/// Returns the walk along each output axis, and the rank of the output.
///
/// # Errors
/// Returns the axis that does not broadcast, and its extent.
pub(crate) fn repeats(
    dims: &[usize],
    target: &[usize],
) -> Result<([Walk; MAX_RANK], usize), (usize, usize)> {
    let rank = dims.len().max(target.len());
    // Shapes align at their last axes.
    let extent_at = |dims: &[usize], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
    };
    let mut walks = [Walk::whole(1); MAX_RANK];
    for (axis, walk) in walks.iter_mut().enumerate().take(rank) {
        *walk = match (extent_at(dims, axis), extent_at(target, axis)) {
            (1, times) => Walk::times(1, times),
            (extent, target) if target == 1 || target == extent => Walk::whole(extent),
            (extent, _) => return Err((axis, extent)),
        };
    }
    Ok((walks, rank))
}
