//! Operators with one output per region of interest and channel.

use udo_api::{
    Dim, Element, Error, ExecError, MAX_RANK, Node, Outputs, Parallel, Shape, TensorDesc,
};

/// Calls `body(region, channel, y)` for runs of channels of one region. `y` holds the outputs from `channel` on,
/// `cells` elements per channel. Threads divide the regions and channels among them.
pub(crate) fn each_region<T: Element>(
    parallel: Parallel<'_>,
    (channels, cells): (usize, usize),
    y: &mut [T],
    body: impl Fn(usize, usize, &mut [T]) -> Result<(), ExecError> + Sync,
) -> Result<(), ExecError> {
    if y.is_empty() {
        return Ok(());
    }
    let grain = (y.len() / cells).div_ceil(parallel.width()).max(1);
    parallel.chunks_mut(y, grain * cells, |chunk, y| {
        // Channels are numbered across regions.
        let (mut channel, mut remaining) = (chunk * grain, y);
        while !remaining.is_empty() {
            let count = (channels - channel % channels).min(remaining.len() / cells);
            let (region_y, next) = remaining.split_at_mut(count * cells);
            body(channel / channels, channel % channels, region_y)?;
            (channel, remaining) = (channel + count, next);
        }
        Ok(())
    })
}

/// Returns the output: `height` by `width` cells for each region and channel. Input 0 holds images, and each row of
/// input 1 a region of `numbers` elements.
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
    Ok(x.with_shape(Shape::from_dims(&[count, channels, Dim::Fixed(height), Dim::Fixed(width)])?))
}

fn misfit(x: &TensorDesc, rois: &TensorDesc, numbers: usize) -> Error {
    Error::new(format!(
        "input 0 is {x} and input 1 is {rois}, expected images and {numbers} numbers for each region"
    ))
}

/// Sets the number of regions and channels of a bounded output.
pub(crate) fn set_extents(
    outputs: &mut Outputs<'_>,
    [regions, channels]: [usize; 2],
    cells: [usize; 2],
) -> Result<(), ExecError> {
    let mut extents = [0; MAX_RANK];
    extents[..4].copy_from_slice(&[regions, channels, cells[0], cells[1]]);
    outputs.set_shape(0, &extents[..4])
}

/// Checks that `index`, the image of a region, is less than `images`, and returns it.
pub(crate) fn image_of(index: i64, images: usize, region: usize) -> Result<usize, ExecError> {
    let image = usize::try_from(index).ok().filter(|&image| image < images);
    image.ok_or(ExecError::bad_value(index, region))
}
