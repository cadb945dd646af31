//! Images of which blocks of pixels become channels, or the other way.

use udo_api::{Dim, Error, Node, Shape, TensorDesc};

/// Images, and how many pixels a block is high and wide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// At least 1.
    pub(crate) size: usize,
    /// Batch, channels, height and width.
    pub(crate) images: [usize; 4],
}

impl Blocks {
    /// `x` in blocks of the node's size.
    pub(crate) fn of(node: &Node<'_>, x: &TensorDesc) -> Result<Self, Error> {
        let found = node.int("blocksize")?;
        let size = usize::try_from(found).ok().filter(|&size| size > 0);
        let size = size.ok_or_else(|| {
            Error::new(format!("parameter \"blocksize\" is {found}, wanted 1 at least"))
        })?;
        let &[n, c, h, w] = x.shape() else { return Err(no_images(x)) };
        Ok(Self { size, images: [n, c, h, w] })
    }

    /// The shape of `x` with its channels laid out as blocks of pixels.
    pub(crate) fn to_space(self, x: &TensorDesc) -> Result<Shape, Error> {
        let Self { size, images: [_, c, h, w] } = self;
        let wanted = || self.refusal(x, "channels");
        let area = size.checked_mul(size).filter(|&area| c.is_multiple_of(area));
        let area = area.ok_or_else(wanted)?;
        let long = |extent: usize| extent.checked_mul(size).ok_or_else(wanted);
        with_extents(x, [c / area, long(h)?, long(w)?])
    }

    /// The shape of `x` with blocks of its pixels laid out as channels.
    pub(crate) fn to_depth(self, x: &TensorDesc) -> Result<Shape, Error> {
        let Self { size, images: [_, c, h, w] } = self;
        let wanted = || self.refusal(x, "pixels");
        if !h.is_multiple_of(size) || !w.is_multiple_of(size) {
            return Err(wanted());
        }
        let area = size.checked_mul(size).and_then(|area| area.checked_mul(c));
        with_extents(x, [area.ok_or_else(wanted)?, h / size, w / size])
    }

    fn refusal(self, x: &TensorDesc, of: &str) -> Error {
        let Self { size, .. } = self;
        Error::new(format!("input 0 is {x}, wanted blocks of {size} by {size} {of}"))
    }
}

/// The shape of `x` with these extents behind the batch.
fn with_extents(x: &TensorDesc, extents: [usize; 3]) -> Result<Shape, Error> {
    let shape = x.full_shape();
    let mut dims: Vec<Dim> = shape.iter().collect();
    dims.iter_mut().skip(1).zip(extents).for_each(|(dim, extent)| *dim = dim.with(extent));
    Shape::of_dims(&dims)
}

/// Images of which the pixels of blocks are, or become, batches of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBlocks {
    /// Batch, channels, height and width.
    pub(crate) images: [usize; 4],
    /// Pixels of a block, in height and width; at least 1.
    pub(crate) block: [usize; 2],
    /// Rows above and below, columns before and behind: of padding, or cropped.
    pub(crate) around: [usize; 4],
}

impl BatchBlocks {
    /// `x`, with the node's block, and what its parameter `name` says is around.
    pub(crate) fn of(node: &Node<'_>, name: &str, x: &TensorDesc) -> Result<Self, Error> {
        let &[n, c, h, w] = x.shape() else { return Err(no_images(x)) };
        let block = node.ints("block")?;
        let around = if node.has_param(name) { node.ints(name)? } else { &[0; 4] };
        let refused = |name: &str, found: &[i64], wanted: &str| {
            Error::new(format!("parameter {name:?} is {found:?}, wanted {wanted}"))
        };
        let extents = extents(block).filter(|block: &[usize; 2]| !block.contains(&0));
        let sides = "rows above and below, columns before and behind";
        Ok(Self {
            images: [n, c, h, w],
            block: extents.ok_or_else(|| refused("block", block, "a height and a width"))?,
            around: self::extents(around).ok_or_else(|| refused(name, around, sides))?,
        })
    }

    /// How many blocks there are down and across, with what is around.
    pub(crate) fn blocks_padded(&self) -> [usize; 2] {
        let Self { images: [_, _, h, w], block: [high, wide], around } = self;
        let [above, below, before, behind] = around;
        [(h + above + below) / high, (w + before + behind) / wide]
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
    Error::new(format!("input 0 is {x}, wanted batch, channels, height and width"))
}
