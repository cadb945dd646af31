//! How scales and zero points lie over a tensor: per tensor, per axis or per block.

use udo_api::{Error, Node};

use crate::family::axes::AxisSplit;

/// Where a quantizing node's scales lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// One per position of an axis, or one for all elements.
    PerAxis(AxisSplit),
    /// One for so many neighbours along an axis.
    PerBlock(AxisSplit, usize),
}

/// Where the scales of a quantizing node lie.
pub(crate) fn read(node: &Node<'_>) -> Result<Scaling, Error> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    if node.has_input(2) && node.input(2)?.len() != scale.len() {
        let zero = node.input(2)?;
        return Err(Error::new(format!(
            "the zero point is {zero}, the scale {scale}, wanted one size"
        )));
    }
    let block = node.int("block_size")?;
    if block != 0 {
        return per_block(node, block);
    }
    if scale.rank() == 0 || scale.shape() == [1] {
        return Ok(Scaling::PerAxis(AxisSplit { outer: 1, len: 1, inner: x.len() }));
    }
    let axis = node.axis("axis", x.rank())?;
    let around = AxisSplit::at(x.shape(), axis);
    if scale.rank() != 1 || scale.len() != around.len {
        return Err(Error::new(format!(
            "the scale is {scale}, wanted one per position of axis {axis} of {x}"
        )));
    }
    Ok(Scaling::PerAxis(around))
}

fn per_block(node: &Node<'_>, block: i64) -> Result<Scaling, Error> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let block = usize::try_from(block).map_err(|_| {
        Error::new(format!("parameter \"block_size\" is {block}, wanted 0 or more"))
    })?;
    let axis = node.axis("axis", x.rank())?;
    let mut wanted = x.shape().to_vec();
    if let Some(extent) = wanted.get_mut(axis) {
        *extent = extent.div_ceil(block);
    }
    let zero_fits = !node.has_input(2) || node.input(2)?.shape() == wanted;
    if scale.shape() != wanted || !zero_fits {
        return Err(Error::new(format!(
            "the scale is {scale}, wanted scale and zero point of shape {wanted:?}: one per {block} positions of axis {axis} of {x}"
        )));
    }
    Ok(Scaling::PerBlock(AxisSplit::at(x.shape(), axis), block))
}

/// Calls `body` for each run of elements under one scale, with the scale's place.
pub(crate) fn each_run<X, Y>(
    scaling: Scaling,
    x: &[X],
    y: &mut [Y],
    mut body: impl FnMut(usize, &[X], &mut [Y]),
) {
    let (Scaling::PerAxis(around) | Scaling::PerBlock(around, _)) = scaling;
    if around.inner == 0 {
        return;
    }
    let runs = x.chunks_exact(around.inner).zip(y.chunks_exact_mut(around.inner));
    for (run, (x, y)) in runs.enumerate() {
        match scaling {
            Scaling::PerAxis(_) => body(run % around.len, x, y),
            Scaling::PerBlock(_, block) => {
                let blocks = around.len.div_ceil(block);
                let row = run / around.len * blocks + run % around.len / block;
                for (i, (x, y)) in x.chunks(1).zip(y.chunks_mut(1)).enumerate() {
                    body(row * around.inner + i, x, y);
                }
            }
        }
    }
}
