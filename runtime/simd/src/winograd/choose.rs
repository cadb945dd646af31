//! Where Winograd's algorithm pays.

use super::{Isa, Layer, Tile, isa};

/// How to compute a convolution of 3 by 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// As the sum that it is, of nine products per channel.
    Direct,
    /// By the points of tiles.
    Winograd(Tile),
}

/// What a number costs to transform, both ways, where a multiply-add costs 1.
const TRANSFORM: f64 = 12.0;
/// What starting a product costs.
const START: f64 = 1000.0;
/// Weights that stay in a second-level cache of 2 MiB.
const CACHED: f64 = (1 << 19) as f64;
/// What has to be won by, as the direct sum is more exact.
const MARGIN: f64 = 1.1;

/// The algorithm that is faster on one core for a layer, or for as much of one as that core computes.
///
/// Compares estimates in multiply-adds, whose constants fit measurements of layers of 7 by 7 to 112 by
/// 112 pixels and 3 to 512 channels with AVX-512. From 14 by 14 pixels and 16 channels on it is mostly
/// `F(4x4, 3x3)`. With fewer tiles than that, and weights beyond the second-level cache, reading those
/// takes longer than the products: `F(2x2, 3x3)` has fewer weights, and more tiles to each. Few channels
/// do not make up for the transforms. Threads that share a layer have fewer tiles each.
///
/// Weights have a value at each point: four times as many bytes, or nearly two. Where those are scarce, a byte
/// costs `price` multiply-adds.
pub fn choose(layer: &Layer, price: u32) -> Algorithm {
    choose_on(isa(), layer, price)
}

pub(super) fn choose_on(isa: Isa, layer: &Layer, price: u32) -> Algorithm {
    // What a weight costs to read from beyond the second-level cache, next to its multiply-adds.
    let read = match isa {
        Isa::Portable => 1.0,
        Isa::Avx2 => 4.0,
        Isa::Avx512 | Isa::Amx => 8.0,
    };
    let [inputs, outputs] = layer.channels.map(|channels| channels as f64);
    let weights = inputs * outputs;
    let cost = |points: usize, rows: usize, blocks: usize, transform: f64| {
        let points = points as f64;
        let read = if points * weights > CACHED { read * weights } else { 0.0 };
        points * (rows as f64 * (weights + transform * (inputs + outputs)) + blocks as f64 * read)
    };
    let pixels = layer.images.saturating_mul(layer.output[0]).saturating_mul(layer.output[1]);
    let mut best = (cost(9, pixels, 1, 0.0) / MARGIN, Algorithm::Direct);
    for tile in [Tile::F2x2, Tile::F4x4] {
        let tiles =
            super::tile_rows(tile, layer).saturating_mul(layer.output[1].div_ceil(tile.size()));
        let blocks = tiles.div_ceil(super::driver::block_len(tile, layer.channels));
        let starts = tile.points() as f64 * blocks as f64 * START;
        let bytes = (tile.points() - 9) as f64 * weights * size_of::<f32>() as f64;
        let cost =
            cost(tile.points(), tiles, blocks, TRANSFORM) + starts + f64::from(price) * bytes;
        if cost < best.0 {
            best = (cost, Algorithm::Winograd(tile));
        }
    }
    best.1
}
