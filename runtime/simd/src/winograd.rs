//! 3x3 convolution by Winograd's minimal filtering: stride 1, dilation 1, any padding, `f32`, NHWC.
//!
//! See Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015). `F(MxM, 3x3)` computes an output
//! tile of `M` by `M` pixels from an input tile of `M + 2` by `M + 2`. The input tile and the filter are transformed:
//! seen as polynomials, they are evaluated at `M + 2` points along each axis. There, a convolution is an elementwise
//! product. The products, summed over the channels, are transformed to the output tile. `F(2x2, 3x3)` needs 16 products
//! where direct convolution needs 36, and `F(4x4, 3x3)` 36 instead of 144. The sums over the channels are one matrix
//! product per point, of tiles by channels; weights are transformed and packed once. [`choose()`] decides where this
//! pays off.
//!
//! # Accuracy
//!
//! Transformed values cancel in the outputs, so errors depend on all `M + 2` by `M + 2` pixels of a tile. Let `X[c]` be
//! the largest `|x|` in the tile of channel `c`, and `W[c]` the largest `|w|` from `c` to the output's channel. Before
//! the activation, the error of each output is at most
//!
//! ```text
//! growth (channels + 20) eps / 2 * (sum over c of X[c] W[c])  +  2 eps (|bias| + |residual| + |output|)
//! ```
//!
//! with [`Tile::growth`] of 64 or 564, as long as nothing overflows or is denormal. A chain of `n` roundings has an
//! error of `n eps / 2`: one for the weight, up to 4 along each axis of input and output, and one per channel; `growth`
//! is the largest sum of `|A| |G| |B|` along an axis, squared. Typical errors are far smaller: on noise the root mean
//! square is 1.8 times that of direct convolution for `F(4x4, 3x3)`, and below it for `F(2x2, 3x3)`.
//!
//! A NaN or infinity makes all outputs that depend on it NaN or infinite, and possibly any other output of the tiles
//! that read it. The same applies if a sum of `X[c] W[c]` is within `growth` of the largest float, although direct
//! convolution would be finite.

mod choose;
mod driver;
mod pack;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod points;
#[cfg(test)]
mod tests;
#[expect(
    clippy::inline_always,
    clippy::multiple_unsafe_ops_per_block,
    clippy::needless_range_loop,
    reason = "takes on the features of its caller; an address and the access to it are one step; \
              loops over matrices that stay in registers count"
)]
mod transform;

use std::ops::Range;

pub use choose::{Algorithm, choose};

use crate::gemm_f32::{self, Epilogue, Stored};
use crate::isa::{Isa, isa};

/// The output size of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// `F(2x2, 3x3)`: 2 by 2.
    F2x2,
    /// `F(4x4, 3x3)`: 4 by 4.
    F4x4,
}

/// A 3x3 convolution. Images are contiguous except for gaps between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Images.
    pub images: usize,
    /// Input pixels: height and width.
    pub input: [usize; 2],
    /// Output height and width. Windows may extend past the end arbitrarily far.
    pub output: [usize; 2],
    /// Padding pixels above and left of the first input pixel.
    pub pads: [usize; 2],
    /// Input and output channels.
    pub channels: [usize; 2],
    /// Elements between input pixels, and between output pixels.
    pub pixel_strides: [usize; 2],
}

impl Layer {
    /// Returns a layer over images of height and width, padded by 1 on each side, with contiguous pixels.
    pub fn same(images: usize, size: [usize; 2], channels: [usize; 2]) -> Self {
        Self { images, input: size, output: size, pads: [1, 1], channels, pixel_strides: channels }
    }
}

impl Tile {
    /// All tile sizes.
    pub const ALL: [Self; 2] = [Self::F2x2, Self::F4x4];

    /// Returns the output pixels along an axis.
    pub const fn size(self) -> usize {
        match self {
            Self::F2x2 => 2,
            Self::F4x4 => 4,
        }
    }

    /// Returns the factor by which errors may grow; see the module's documentation.
    pub const fn growth(self) -> f64 {
        match self {
            Self::F2x2 => 64.0,
            Self::F4x4 => 564.0,
        }
    }

    /// Returns the input pixels along an axis.
    const fn extent(self) -> usize {
        self.size() + 2
    }

    /// Returns the number of points at which tiles are evaluated.
    const fn points(self) -> usize {
        self.extent() * self.extent()
    }
}

/// Returns the rows of tiles of all images, of which [`conv`] computes a range.
pub fn tile_rows(tile: Tile, layer: &Layer) -> usize {
    layer.images.saturating_mul(layer.output[0].div_ceil(tile.size()))
}

/// Returns the rows of output pixels, counted over all images, of a range of tile rows.
pub fn pixel_rows(tile: Tile, layer: &Layer, rows: Range<usize>) -> Range<usize> {
    let rows_per_image = layer.output[0].div_ceil(tile.size()).max(1);
    let first_pixel_row = |tile_row: usize| {
        let in_image = (tile_row % rows_per_image).saturating_mul(tile.size());
        let image = tile_row / rows_per_image;
        image.saturating_mul(layer.output[0]).saturating_add(in_image.min(layer.output[0]))
    };
    first_pixel_row(rows.start)..first_pixel_row(rows.end)
}

/// Returns the multiplications of a layer's matrix products at all points, without the transforms.
pub fn products(tile: Tile, layer: &Layer) -> usize {
    let across = layer.output[1].div_ceil(tile.size());
    let factors = [across, tile.points(), layer.channels[0], layer.channels[1]];
    factors.into_iter().fold(tile_rows(tile, layer), usize::saturating_mul)
}

/// Returns the elements of the packed weights.
///
/// # Panics
///
/// Panics if the size overflows `usize`.
pub fn packed_len(tile: Tile, channels: [usize; 2]) -> usize {
    packed_len_on(isa(), tile, channels)
}

/// Returns the workspace elements of [`pack()`].
///
/// # Panics
///
/// Panics if the size overflows `usize`.
pub fn pack_workspace_len(channels: [usize; 2]) -> usize {
    let len = channels[0].checked_mul(channels[1]);
    assert!(len.is_some(), "the weights exceed the address space");
    len.unwrap_or(0)
}

/// Transforms and packs weights, `[out, in, 3, 3]` as in ONNX, into the first [`packed_len`] elements of `out`. Layers
/// are fastest if `out` is aligned to 64 bytes. `channels` are input and output channels.
///
/// # Panics
///
/// Panics if a slice is too short.
pub fn pack<T: Stored>(
    tile: Tile,
    weights: &[T],
    channels: [usize; 2],
    out: &mut [f32],
    workspace: &mut [f32],
) {
    pack_on(isa(), tile, weights, channels, out, workspace);
}

/// Returns the workspace elements of [`conv`] for any rows; each thread needs a workspace.
///
/// # Panics
///
/// Panics if the size, or the extent of an image, overflows `usize`.
pub fn workspace_len(tile: Tile, layer: &Layer) -> usize {
    Plan::new(isa(), tile, layer).workspace_len()
}

/// Computes a range of the [`tile_rows`] of the layer's output, from weights packed by [`pack()`] for the tile.
///
/// `x` is the whole input. `y` and the epilogue's residual start at the first of the range's [`pixel_rows`], so that
/// threads may share an output. Gaps between pixels are not written. The contents of `workspace` are ignored, and
/// unspecified afterwards; it is best aligned to 64 bytes.
///
/// # Panics
///
/// Panics if a slice is too short, output pixels overlap, or the range exceeds the [`tile_rows`].
#[expect(
    clippy::too_many_arguments,
    reason = "the operands of a convolution, and its share of the work"
)]
pub fn conv(
    tile: Tile,
    layer: &Layer,
    rows: Range<usize>,
    x: &[f32],
    packed: &[f32],
    y: &mut [f32],
    epilogue: &Epilogue<'_>,
    workspace: &mut [f32],
) {
    Plan::new(isa(), tile, layer).conv(rows, x, packed, y, epilogue, workspace);
}

fn packed_len_on(isa: Isa, tile: Tile, channels: [usize; 2]) -> usize {
    let matrix = gemm_f32::kernels(isa).packed_len(channels[0], channels[1]);
    let len = matrix.checked_next_multiple_of(LINE).and_then(|len| len.checked_mul(tile.points()));
    assert!(len.is_some(), "the packed weights exceed the address space");
    len.unwrap_or(0)
}

fn pack_on<T: Stored>(
    isa: Isa,
    tile: Tile,
    weights: &[T],
    channels: [usize; 2],
    out: &mut [f32],
    workspace: &mut [f32],
) {
    let count = pack_workspace_len(channels);
    assert!(
        count.checked_mul(9).is_some_and(|len| len <= weights.len()),
        "the weights are too short"
    );
    let packed = packed_len_on(isa, tile, channels);
    let (out, workspace) = (&mut out[..packed], &mut workspace[..count]);
    pack::pack(gemm_f32::kernels(isa), tile, weights, channels, out, workspace);
}

/// Elements of a cache line.
const LINE: usize = 16;

/// A layer divided into tiles, and these into blocks that are transformed and multiplied together.
#[derive(Clone, Copy, Debug)]
struct Plan {
    isa: Isa,
    tile: Tile,
    layer: Layer,
    /// Tiles per row of an image, and rows of tiles per image.
    tiles_per_row: usize,
    tile_rows_per_image: usize,
    /// The most tiles of a block.
    max_tiles: usize,
    /// The layouts of transformed tiles, and of their products.
    inputs: Rows,
    outputs: Rows,
}

/// The layout of a block's transformed tiles or products: one matrix per point, with a row per tile.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// Elements between tiles: whole cache lines.
    row: usize,
    /// Elements between points: an odd number of cache lines, so that the points of a tile do not share a few cache
    /// sets.
    point: usize,
}

/// The first pixel of an output tile.
#[derive(Clone, Copy, Debug)]
struct TileOrigin {
    image: usize,
    row: usize,
    col: usize,
}

impl Plan {
    fn origin(&self, tile: usize) -> TileOrigin {
        let (row, col) = (tile / self.tiles_per_row, tile % self.tiles_per_row);
        let size = self.tile.size();
        TileOrigin {
            image: row / self.tile_rows_per_image,
            row: row % self.tile_rows_per_image * size,
            col: col * size,
        }
    }
}
