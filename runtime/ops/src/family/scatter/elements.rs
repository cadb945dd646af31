//! Updates as of `ScatterElements`: an index gives an update's coordinate along one axis, and its own position gives the
//! other coordinates.

use std::marker::PhantomData;

use udo_api::{Error, ExecError, Inputs, Node, OpSchema, Parallel};

use super::{Combine, Scatter, Width};
use crate::family::movement::{Along, Indices, check_along};

/// An operator with updates along its parameter `axis`.
pub(crate) trait ScatterAlong: Send + Sync + 'static {
    const SCHEMA: OpSchema;
}

/// The targets of the updates of operator `S`.
pub(crate) struct Elements<S> {
    axis: usize,
    marker: PhantomData<fn() -> S>,
}

impl<S: ScatterAlong> Scatter for Elements<S> {
    const SCHEMA: OpSchema = S::SCHEMA;

    fn plan(node: &Node<'_>) -> Result<Self, Error> {
        let (data, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
        let axis = node.axis("axis", data.rank())?;
        check_along(axis, &data, &indices)?;
        if updates.shape() != indices.shape() {
            return Err(Error::new(format!("input 2 is {updates}, input 1 is {indices}")));
        }
        Ok(Self { axis, marker: PhantomData })
    }

    fn scatter<B: Width>(
        &self,
        inputs: &Inputs<'_>,
        combine: Combine,
        parallel: Parallel<'_>,
        y: &mut [B],
    ) -> Result<(), ExecError> {
        let (indices, updates) = (Indices::get(inputs, 1)?, inputs.get_bits::<B>(2)?);
        let (data_dims, dims) = (inputs.shape(0)?, inputs.shape(1)?);
        if inputs.shape(2)? != dims {
            return Err(ExecError::bad_value(updates.len() as i64, indices.len()));
        }
        let along = Along::new(self.axis, data_dims, dims)?;
        let function = B::function(combine);
        // Applies the updates of `rows` to `y`, which starts at element `first` of the output.
        let update_rows = |rows: std::ops::Range<usize>, first: usize, y: &mut [B]| {
            for row in rows {
                let updates = &updates[row * along.row..][..along.row];
                for (position, &update) in along.places(indices, row).zip(updates) {
                    let y = &mut y[position? - first];
                    *y = function.map_or(update, |function| function(*y, update));
                }
            }
            Ok(())
        };
        let outermost = dims.first().copied().unwrap_or(1);
        if self.axis == 0 || outermost == 0 {
            return update_rows(0..along.rows, 0, y);
        }
        // Updates keep their position on the outermost axis, so threads that split it never share an element.
        let (rows_per_index, block) = (along.rows / outermost, y.len() / data_dims[0].max(1));
        parallel.chunks_mut(y, block, |outer_index, y| {
            if outer_index < outermost {
                update_rows(
                    outer_index * rows_per_index..(outer_index + 1) * rows_per_index,
                    outer_index * block,
                    y,
                )
            } else {
                Ok(())
            }
        })
    }
}
