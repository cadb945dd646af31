//! Convolutions of 3 by 3 by Winograd's minimal filtering: stride 1, dilation 1, any padding, `f32`, NHWC.
//!
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015). A tile of the input is
//! transformed to its values at a few points, where the filter is a product of numbers, and the products,
//! summed over the channels, are transformed to a tile of the output. `F(2x2, 3x3)` needs 16 products where
//! the sum has 36, and `F(4x4, 3x3)` 36 where it has 144. The sums over the channels are one matrix
//! product per point, of tiles by channels; weights are transformed and packed once. [`choose()`] says
//! where that pays.
//!
//! # Accuracy
//!
//! What a tile reads cancels in its outputs, so that errors depend on all of its `M + 2` by `M + 2`
//! pixels. Let `X[c]` be the largest `|x|` there of channel `c`, and `W[c]` the largest `|w|` from `c` to
//! the output's channel. Before the activation, each output is off by at most
//!
//! ```text
//! growth (channels + 20) eps / 2 * (sum over c of X[c] W[c])  +  2 eps (|bias| + |residual| + |output|)
//! ```
//!
//! with [`Tile::growth`] of 64 or 564, as long as nothing overflows or is subnormal. A chain of `n`
//! roundings is off by `n eps / 2`: one of the weight, up to 4 along each axis of the input and of the
//! output, and one per channel; `growth` is the largest sum of `|A| |G| |B|` along an axis, squared.
//! Errors are mostly far below: on noise their root mean square is 1.8 times that of a direct sum for
//! `F(4x4, 3x3)`, and below that of one for `F(2x2, 3x3)`.
//!
//! A NaN or an infinity makes all outputs that depend on it NaN or infinite, and may do so to any other
//! output of the tiles that read it. So may a sum of the `X[c] W[c]` within `growth` of the largest
//! number, where a direct sum is finite.

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

/// How many outputs a tile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// `F(2x2, 3x3)`: 2 by 2.
    F2x2,
    /// `F(4x4, 3x3)`: 4 by 4.
    F4x4,
}

/// A convolution of 3 by 3. Images lie one behind the other, without gaps other than between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Images.
    pub images: usize,
    /// Input pixels: height and width.
    pub input: [usize; 2],
    /// Output pixels: height and width. Windows may hang over the end as far as they like.
    pub output: [usize; 2],
    /// Padding pixels above and to the left of the first input pixel.
    pub pads: [usize; 2],
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Elements from an input pixel, and from an output pixel, to the next.
    pub pixel_strides: [usize; 2],
}

impl Layer {
    /// A layer over images of height and width, padded by 1 on each side, without gaps between pixels.
    pub fn same(images: usize, size: [usize; 2], channels: [usize; 2]) -> Self {
        Self { images, input: size, output: size, pads: [1, 1], channels, pixel_strides: channels }
    }
}

impl Tile {
    /// Every tile.
    pub const ALL: [Self; 2] = [Self::F2x2, Self::F4x4];

    /// Output pixels along an axis.
    pub const fn size(self) -> usize {
        match self {
            Self::F2x2 => 2,
            Self::F4x4 => 4,
        }
    }

    /// By how much errors may grow: see the module.
    pub const fn growth(self) -> f64 {
        match self {
            Self::F2x2 => 64.0,
            Self::F4x4 => 564.0,
        }
    }

    /// Input pixels along an axis.
    const fn extent(self) -> usize {
        self.size() + 2
    }

    const fn points(self) -> usize {
        self.extent() * self.extent()
    }
}

/// Rows of tiles of all images: what [`conv`] takes a range of.
pub fn tile_rows(tile: Tile, layer: &Layer) -> usize {
    layer.images.saturating_mul(layer.output[0].div_ceil(tile.size()))
}

/// Rows of output pixels, counted over all images, that a range of rows of tiles computes.
pub fn pixel_rows(tile: Tile, layer: &Layer, rows: Range<usize>) -> Range<usize> {
    let down = layer.output[0].div_ceil(tile.size()).max(1);
    let row = |i: usize| {
        let within = (i % down).saturating_mul(tile.size()).min(layer.output[0]);
        (i / down).saturating_mul(layer.output[0]).saturating_add(within)
    };
    row(rows.start)..row(rows.end)
}

/// Multiplications of the matrix products of a layer, one for each point of its tiles; transforms do not count.
pub fn products(tile: Tile, layer: &Layer) -> usize {
    let across = layer.output[1].div_ceil(tile.size());
    let factors = [across, tile.points(), layer.channels[0], layer.channels[1]];
    factors.into_iter().fold(tile_rows(tile, layer), usize::saturating_mul)
}

/// Elements that the weights take when packed.
///
/// # Panics
///
/// If that is more than `usize` holds.
pub fn packed_len(tile: Tile, channels: [usize; 2]) -> usize {
    packed_len_on(isa(), tile, channels)
}

/// Elements that [`pack()`] wants as workspace.
///
/// # Panics
///
/// If that is more than `usize` holds.
pub fn pack_workspace_len(channels: [usize; 2]) -> usize {
    let len = channels[0].checked_mul(channels[1]);
    assert!(len.is_some(), "the weights are larger than memory");
    len.unwrap_or(0)
}

/// Transforms and packs weights, `[out, in, 3, 3]` as ONNX has them, into the first [`packed_len`] elements
/// of `out`. Layers run best when `out` is aligned to 64 bytes. `channels` are those of the input and
/// of the output.
///
/// # Panics
///
/// If a slice is too short.
pub fn pack<T: Stored>(
    tile: Tile,
    weights: &[T],
    channels: [usize; 2],
    out: &mut [f32],
    workspace: &mut [f32],
) {
    pack_on(isa(), tile, weights, channels, out, workspace);
}

/// Elements that [`conv`] wants as workspace, whatever its rows: each thread its own.
///
/// # Panics
///
/// If that, or the extent of an image, is more than `usize` holds.
pub fn workspace_len(tile: Tile, layer: &Layer) -> usize {
    Plan::new(isa(), tile, layer).workspace_len()
}

/// The layer's output in a range of the [`tile_rows`], from weights that [`pack()`] has packed for the tile.
///
/// `x` is the whole input. `y`, and the residual of the epilogue, start at the first of the range's
/// [`pixel_rows`], so that threads may share an output. Only channels are written, not the gaps
/// between pixels. What `workspace` holds before and after means nothing; it is best aligned to 64 bytes.
///
/// # Panics
///
/// If a slice is too short, output pixels overlap, or the range goes beyond the [`tile_rows`].
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
    let one = gemm_f32::kernels(isa).packed_len(channels[0], channels[1]);
    let len = one.checked_next_multiple_of(LINE).and_then(|one| one.checked_mul(tile.points()));
    assert!(len.is_some(), "the packed weights are larger than memory");
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

/// A layer cut into tiles.
#[derive(Clone, Copy, Debug)]
struct Plan {
    isa: Isa,
    tile: Tile,
    layer: Layer,
    /// Tiles from the left to the right of an image, and from its top down.
    tiles_per_row: usize,
    tile_rows_per_image: usize,
    /// The most tiles of a block: those that are transformed before they are multiplied.
    max_tiles: usize,
    /// How transformed tiles lie, and their products.
    inputs: Rows,
    outputs: Rows,
}

/// Matrices of a row per tile, one for each point.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// Elements from a tile to the next: whole lines.
    row: usize,
    /// Elements from a point to the next: an odd number of lines, so that the points of a tile do not
    /// fall on the same few places of a cache.
    point: usize,
}

/// Where a tile of the output starts.
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
