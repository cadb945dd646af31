//! The transform of weights, and their packing: one packed matrix per point.

use super::Tile;
use super::points::{Filter, Transform};
use crate::gemm_f32::{Layout, MicroKernels, Stored};

/// Transforms and packs weights like [`pack`](super::pack()), which has checked the lengths of the slices. `matrix` is
/// the workspace, for the weights at one point.
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

/// Evaluates each 3x3 filter at a point, in `f64` and rounded once. `point_factors` has the factors of three weights at
/// each point of an axis.
fn at_point<T: Stored, const A: usize>(
    point_factors: &[[f64; 3]; A],
    point: usize,
    weights: &[T],
    out: &mut [f32],
) {
    let (rows, cols) = (point_factors[point / A], point_factors[point % A]);
    let factors: [f64; 9] = std::array::from_fn(|i| rows[i / 3] * cols[i % 3]);
    let (filters, _) = weights.as_chunks::<9>();
    for (out, filter) in out.iter_mut().zip(filters) {
        let sum: f64 =
            filter.iter().zip(factors).map(|(w, factor)| f64::from(w.number()) * factor).sum();
        *out = sum as f32;
    }
}
