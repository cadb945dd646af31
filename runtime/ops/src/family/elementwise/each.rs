//! Calls of functions on the elements of a tensor.

use udo_api::{Element, Error, ExecError, FinalizeCx, Io, Pair, Status};

use super::GRAIN;

/// Whether a run may have fewer elements than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extents {
    Fixed,
    Bounded,
}

impl Extents {
    /// Those of output 0.
    pub(crate) fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let is_fixed = cx.output(0)?.full_shape().is_fixed();
        Ok(if is_fixed { Self::Fixed } else { Self::Bounded })
    }
}

/// Calls one of the functions on the elements, on several threads where there are many.
///
/// Small tensors of fixed extents take the least: a node of a few elements costs little more than its call.
#[inline]
pub(crate) fn each<T: Element>(
    extents: Extents,
    mut io: Io<'_>,
    apart: impl Fn(&[T], &mut [T]) + Sync,
    in_place: impl Fn(&mut [T]) + Sync,
) -> Result<(), ExecError> {
    match io.pair::<T>(0, 0) {
        Ok(Pair::Same(y)) if extents == Extents::Fixed && y.len() <= GRAIN => in_place(y),
        Ok(Pair::Apart(x, y)) if extents == Extents::Fixed && y.len() <= GRAIN => apart(x, y),
        Ok(pair) => return share(io, pair, apart, in_place),
        // What does not lie in one piece is no pair, and nothing was taken.
        Err(_) => return each_row(io, apart),
    }
    Ok(())
}

#[inline(never)]
fn share<T: Element>(
    mut io: Io<'_>,
    pair: Pair<'_, T>,
    apart: impl Fn(&[T], &mut [T]) + Sync,
    in_place: impl Fn(&mut [T]) + Sync,
) -> Result<(), ExecError> {
    match pair {
        Pair::Apart(x, y) => {
            // A bounded output has room for more than the run's elements.
            let len = x.len().min(y.len());
            io.parallel.chunks_mut(&mut y[..len], GRAIN, |chunk, y| {
                apart(&x[chunk * GRAIN..][..y.len()], y);
                Ok(())
            })?;
        }
        Pair::Same(y) => io.parallel.chunks_mut(y, GRAIN, |_, y| {
            in_place(y);
            Ok(())
        })?,
    }
    let shape = io.inputs.shape(0)?;
    io.outputs.set_shape(0, shape)
}

#[cold]
fn each_row<T: Element>(
    mut io: Io<'_>,
    apart: impl Fn(&[T], &mut [T]) + Sync,
) -> Result<(), ExecError> {
    let (x, mut y) = (io.inputs.rows::<T>(0)?, io.outputs.take_rows::<T>(0)?);
    io.parallel.rows_mut(&mut y, |row, y| {
        let x = x.get(row).filter(|x| x.len() == y.len());
        apart(x.ok_or(ExecError::of(Status::BAD_CALL))?, y);
        Ok(())
    })
}
