//! Tiles in plain Rust: up to 4 rows by 16 columns.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all accesses of a tile rest on the same promise"
)]

use super::epilogue::Curve;
use super::{Forms, Tile};

const LANES: usize = 8;

pub(super) static FORMS: Forms = Forms {
    lanes: LANES,
    panel: 2,
    tiles: &[
        &[tile::<1, 1>, tile::<2, 1>, tile::<3, 1>, tile::<4, 1>],
        &[tile::<1, 2>, tile::<2, 2>, tile::<3, 2>, tile::<4, 2>],
    ],
    curve,
};

/// # Safety
///
/// The pointers of the tile must be good for `R` rows, `V` registers and the depth that it names.
unsafe fn tile<const R: usize, const V: usize>(tile: &Tile) {
    let mut start = [[0.0f32; LANES]; V];
    if !tile.bias.is_null() {
        // SAFETY: a bias has a number for each column of the tile.
        let bias = unsafe { std::slice::from_raw_parts(tile.bias, tile.cols) };
        start.as_flattened_mut()[..tile.cols].copy_from_slice(bias);
    }
    let mut sums = [start; R];
    for step in 0..tile.depth {
        // SAFETY: the panel has `depth` rows of `V` registers.
        let b = unsafe { &*tile.b.cast::<[[f32; LANES]; V]>().add(step) };
        for (i, row) in sums.iter_mut().enumerate() {
            // SAFETY: `A` has `R` rows of `depth` elements.
            let a = unsafe { *tile.a.add(i * tile.lda + step) };
            for (sums, b) in row.iter_mut().zip(b) {
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum += a * b;
                }
            }
        }
    }
    // SAFETY: `C`, and what is added, have `R` rows with the columns of the tile.
    unsafe { finish(tile, sums) };
}

/// Adds, clamps and stores. Apart from the sums' loop, as a column that is only known at run time
/// would keep them out of registers there.
///
/// # Safety
///
/// `C`, and what is added unless null, must be good for `R` rows of the columns of the tile.
#[inline(never)]
unsafe fn finish<const R: usize, const V: usize>(tile: &Tile, mut sums: [[[f32; LANES]; V]; R]) {
    for (i, row) in sums.iter_mut().enumerate() {
        for (j, sum) in row.as_flattened_mut().iter_mut().take(tile.cols).enumerate() {
            if !tile.add.is_null() {
                // SAFETY: what is added has as many rows and columns as the tile.
                *sum += unsafe { *tile.add.add(i * tile.ld_add + j) };
            }
            if let Some((low, high)) = tile.clamp {
                *sum = if *sum < low { low } else { *sum };
                *sum = if *sum > high { high } else { *sum };
            }
            // SAFETY: `C` has `R` rows with the columns of the tile.
            unsafe { *tile.c.add(i * tile.ldc + j) = *sum };
        }
    }
}

unsafe fn curve(curve: Curve, values: &mut [f32]) {
    curve.apply(values);
}
