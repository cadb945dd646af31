//! Regions of images, of each of which an output is made per channel.

use udo_api::{
    Dim, Element, Error, ExecError, MAX_RANK, Node, Outputs, Parallel, Shape, TensorDesc,
};

/// Calls `body` with the number of a region, one of its channels, and the outputs of that and of those behind it: of `cells`
/// elements for each channel. Several threads share the regions, and their channels.
pub(crate) fn each_region<T: Element>(
    parallel: Parallel<'_>,
    (channels, cells): (usize, usize),
    y: &mut [T],
    body: impl Fn(usize, usize, &mut [T]) -> Result<(), ExecError> + Sync,
) -> Result<(), ExecError> {
    if y.is_empty() {
        return Ok(());
    }
    let each = (y.len() / cells).div_ceil(parallel.width()).max(1);
    parallel.chunks_mut(y, each * cells, |part, y| {
        let (mut at, mut left) = (part * each, y);
        while !left.is_empty() {
            let run = (channels - at % channels).min(left.len() / cells);
            let (of_region, behind) = left.split_at_mut(run * cells);
            body(at / channels, at % channels, of_region)?;
            (at, left) = (at + run, behind);
        }
        Ok(())
    })
}

/// The output of regions of images that are input 0, as `numbers` at each row of input 1 say.
pub(crate) fn output(
    node: &Node<'_>,
    numbers: usize,
    [height, width]: [usize; 2],
) -> Result<TensorDesc, Error> {
    let (x, rois) = (node.input(0)?, node.input(1)?);
    let (shape, regions) = (x.full_shape(), rois.full_shape());
    let (Some(channels), Some(count)) = (shape.dim(1), regions.dim(0)) else {
        return Err(misfit(&x, &rois, numbers));
    };
    if x.rank() != 4 || rois.rank() != 2 || rois.shape()[1] != numbers {
        return Err(misfit(&x, &rois, numbers));
    }
    Ok(x.with_shape(Shape::of_dims(&[count, channels, Dim::Fixed(height), Dim::Fixed(width)])?))
}

fn misfit(x: &TensorDesc, rois: &TensorDesc, numbers: usize) -> Error {
    Error::new(format!(
        "input 0 is {x} and input 1 is {rois}, wanted images and {numbers} numbers for each region"
    ))
}

/// Says how many regions, and channels, a bounded output has.
pub(crate) fn set_extents(
    outputs: &mut Outputs<'_>,
    [regions, channels]: [usize; 2],
    cells: [usize; 2],
) -> Result<(), ExecError> {
    let mut extents = [0; MAX_RANK];
    extents[..4].copy_from_slice(&[regions, channels, cells[0], cells[1]]);
    outputs.set_shape(0, &extents[..4])
}

/// The image that `index`, of region `at`, means.
pub(crate) fn image_of(index: i64, images: usize, at: usize) -> Result<usize, ExecError> {
    let image = usize::try_from(index).ok().filter(|&image| image < images);
    image.ok_or(ExecError::bad_value(index, at))
}
