//! Weights transformed to each point, as one packed matrix per point.

use super::Tile;
use super::points::{Filter, Transform};
use crate::gemm_f32::{Layout, MicroKernels, Stored};

/// See [`pack`](super::pack()); the lengths of slices have been checked.
pub(super) fn pack<T: Stored>(
    products: &MicroKernels,
    tile: Tile,
    weights: &[T],
    [inputs, outputs]: [usize; 2],
    out: &mut [f32],
    matrix: &mut [f32],
) {
    let len = out.len() / tile.points();
    for point in 0..tile.points() {
        match tile {
            Tile::F2x2 => at_point(&Filter::<2, 4>::WEIGHTS, point, weights, matrix),
            Tile::F4x4 => at_point(&Filter::<4, 6>::WEIGHTS, point, weights, matrix),
        }
        let out = &mut out[point * len..][..len];
        products.pack_b(matrix, inputs, Layout::Transposed, inputs, outputs, out);
    }
}

/// Evaluates each filter at a point, rounded once.
fn at_point<T: Stored, const A: usize>(
    g: &[[f64; 3]; A],
    point: usize,
    weights: &[T],
    out: &mut [f32],
) {
    let (rows, cols) = (g[point / A], g[point % A]);
    let factors: [f64; 9] = std::array::from_fn(|i| rows[i / 3] * cols[i % 3]);
    let (filters, _) = weights.as_chunks::<9>();
    for (out, filter) in out.iter_mut().zip(filters) {
        let sum: f64 =
            filter.iter().zip(factors).map(|(w, factor)| f64::from(w.number()) * factor).sum();
        *out = sum as f32;
    }
}
