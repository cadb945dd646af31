//! Blocks of pixels: rearranging them into channels or batches and back (`SpaceToDepth`, `SpaceToBatch` and their
//! inverses).

use udo_api::{Dim, Error, Node, Shape, TensorDesc};

/// Images and the side of a square block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// At least 1.
    pub(crate) size: usize,
    /// Batch, channels, height and width.
    pub(crate) images: [usize; 4],
}

impl Blocks {
    /// Reads the node's block size for `x`.
    pub(crate) fn read(node: &Node<'_>, x: &TensorDesc) -> Result<Self, Error> {
        let found = node.int("blocksize")?;
        let size = usize::try_from(found).ok().filter(|&size| size > 0);
        let size = size.ok_or_else(|| {
            Error::new(format!("parameter \"blocksize\" is {found}, expected at least 1"))
        })?;
        let &[n, c, h, w] = x.shape() else { return Err(no_images(x)) };
        Ok(Self { size, images: [n, c, h, w] })
    }

    /// Returns the shape of `x` with channels rearranged into blocks of pixels.
    pub(crate) fn to_space(self, x: &TensorDesc) -> Result<Shape, Error> {
        let Self { size, images: [_, c, h, w] } = self;
        let misfit = || self.refusal(x, "channels");
        let area = size.checked_mul(size).filter(|&area| c.is_multiple_of(area));
        let area = area.ok_or_else(misfit)?;
        let scaled = |extent: usize| extent.checked_mul(size).ok_or_else(misfit);
        with_extents(x, [c / area, scaled(h)?, scaled(w)?])
    }

    /// Returns the shape of `x` with blocks of pixels rearranged into channels.
    pub(crate) fn to_depth(self, x: &TensorDesc) -> Result<Shape, Error> {
        let Self { size, images: [_, c, h, w] } = self;
        let misfit = || self.refusal(x, "pixels");
        if !h.is_multiple_of(size) || !w.is_multiple_of(size) {
            return Err(misfit());
        }
        let area = size.checked_mul(size).and_then(|area| area.checked_mul(c));
        with_extents(x, [area.ok_or_else(misfit)?, h / size, w / size])
    }

    fn refusal(self, x: &TensorDesc, layout: &str) -> Error {
        let Self { size, .. } = self;
        Error::new(format!("input 0 is {x}, expected blocks of {size} by {size} {layout}"))
    }
}

/// Returns the shape of `x` with these extents after the batch.
fn with_extents(x: &TensorDesc, extents: [usize; 3]) -> Result<Shape, Error> {
    let shape = x.full_shape();
    let mut dims: Vec<Dim> = shape.iter().collect();
    dims.iter_mut().skip(1).zip(extents).for_each(|(dim, extent)| *dim = dim.with(extent));
    Shape::from_dims(&dims)
}

/// Images and a block whose pixels are separate batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBlocks {
    /// Batch, channels, height and width.
    pub(crate) images: [usize; 4],
    /// Height and width of a block; at least 1.
    pub(crate) block: [usize; 2],
    /// Rows above and below, columns before and after an image: padding when blocks become batches, a crop on the way
    /// back.
    pub(crate) around: [usize; 4],
}

impl BatchBlocks {
    /// Reads the node's block, and the parameter `name` as padding or crop.
    pub(crate) fn read(node: &Node<'_>, name: &str, x: &TensorDesc) -> Result<Self, Error> {
        let &[n, c, h, w] = x.shape() else { return Err(no_images(x)) };
        let block = node.ints("block")?;
        let around = if node.has_param(name) { node.ints(name)? } else { &[0; 4] };
        let refused = |name: &str, found: &[i64], expected: &str| {
            Error::new(format!("parameter {name:?} is {found:?}, expected {expected}"))
        };
        let extents = extents(block).filter(|block: &[usize; 2]| !block.contains(&0));
        let sides = "rows above and below, columns before and after";
        Ok(Self {
            images: [n, c, h, w],
            block: extents.ok_or_else(|| refused("block", block, "a height and a width"))?,
            around: self::extents(around).ok_or_else(|| refused(name, around, sides))?,
        })
    }

    /// Returns the number of blocks down and across, including padding.
    pub(crate) fn blocks_padded(&self) -> [usize; 2] {
        let Self { images: [_, _, h, w], block: [high, wide], around } = self;
        let [above, below, before, after] = around;
        [(h + above + below) / high, (w + before + after) / wide]
    }
}

fn extents<const N: usize>(found: &[i64]) -> Option<[usize; N]> {
    let mut extents = [0; N];
    for (to, &extent) in extents.iter_mut().zip(found) {
        *to = usize::try_from(extent).ok()?;
    }
    (found.len() == N).then_some(extents)
}

fn no_images(x: &TensorDesc) -> Error {
    Error::new(format!("input 0 is {x}, expected batch, channels, height and width"))
}
