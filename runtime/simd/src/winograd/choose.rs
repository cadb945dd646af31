//! The choice between Winograd's algorithm and direct convolution, by a model of their costs.

use super::{Isa, Layer, Tile, isa};

/// An algorithm for 3x3 convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Direct: nine products per channel.
    Direct,
    /// Winograd's algorithm with tiles of this size.
    Winograd(Tile),
}

/// Cost of transforming one input and one output element, in multiply-adds.
const TRANSFORM: f64 = 12.0;
/// Cost of starting a matrix product, in multiply-adds.
const START: f64 = 1000.0;
/// The most weights that fit a 2 MiB second-level cache.
const CACHED: f64 = (1 << 19) as f64;
/// The required speedup, because direct convolution is more accurate.
const MARGIN: f64 = 1.1;

/// Returns the faster algorithm on one core for a layer, or for the part of a layer that the core computes.
///
/// Compares cost estimates in multiply-adds, with constants fitted to AVX-512 measurements of layers of 7x7 to 112x112
/// pixels and 3 to 512 channels. From 14x14 pixels and 16 channels on, `F(4x4, 3x3)` mostly wins. With fewer tiles, and
/// weights larger than the second-level cache, reading the weights dominates: `F(2x2, 3x3)` has fewer weights and more
/// tiles. With few channels the transforms do not pay off. Threads that share a layer have fewer tiles each.
///
/// Transformed weights take nearly two (`F(2x2, 3x3)`) or four times as many bytes. Callers with scarce memory pass the
/// `price` of a byte, in multiply-adds; others pass 0.
pub fn choose(layer: &Layer, price: u32) -> Algorithm {
    choose_on(isa(), layer, price)
}

pub(super) fn choose_on(isa: Isa, layer: &Layer, price: u32) -> Algorithm {
    // Cost of reading a weight from beyond the second-level cache, in multiply-adds.
    let read = match isa {
        Isa::Portable => 1.0,
        Isa::Avx2 => 4.0,
        Isa::Avx512 | Isa::Amx => 8.0,
    };
    let [inputs, outputs] = layer.channels.map(|channels| channels as f64);
    let weights = inputs * outputs;
    // The cost of `points` matrix products with `rows` rows, in `blocks` blocks that each read all weights.
    let cost = |points: usize, rows: usize, blocks: usize, transform: f64| {
        let points = points as f64;
        let read = if points * weights > CACHED { read * weights } else { 0.0 };
        points * (rows as f64 * (weights + transform * (inputs + outputs)) + blocks as f64 * read)
    };
    let pixels = layer.images.saturating_mul(layer.output[0]).saturating_mul(layer.output[1]);
    // The lowest cost so far, and its algorithm.
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
