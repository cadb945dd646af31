//! How scales and zero points lie over a tensor, per tensor or per axis.

use udo_api::{Error, Node};

use crate::walk::Around;

/// Where a quantizing node's scales lie: one for all elements, or one per position of an axis.
pub(crate) fn read(node: &Node<'_>) -> Result<Around, Error> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    if node.int("block_size")? != 0 {
        let found = node.int("block_size")?;
        return Err(Error::new(format!("parameter \"block_size\" is {found}, wanted 0")));
    }
    if node.has_input(2) && node.input(2)?.len() != scale.len() {
        let zero = node.input(2)?;
        return Err(Error::new(format!(
            "the zero point is {zero}, the scale {scale}, wanted one size"
        )));
    }
    if scale.rank() == 0 || scale.shape() == [1] {
        return Ok(Around { outer: 1, len: 1, inner: x.len() });
    }
    let axis = node.axis("axis", x.rank())?;
    let around = Around::axis(x.shape(), axis);
    if scale.rank() != 1 || scale.len() != around.len {
        return Err(Error::new(format!(
            "the scale is {scale}, wanted one per position of axis {axis} of {x}"
        )));
    }
    Ok(around)
}

/// Calls `body` for each run of elements under one scale, with the scale's place.
pub(crate) fn each_run<X, Y>(
    around: Around,
    x: &[X],
    y: &mut [Y],
    mut body: impl FnMut(usize, &[X], &mut [Y]),
) {
    if around.inner == 0 {
        return;
    }
    let runs = x.chunks_exact(around.inner).zip(y.chunks_exact_mut(around.inner));
    for (run, (x, y)) in runs.enumerate() {
        body(run % around.len, x, y);
    }
}
