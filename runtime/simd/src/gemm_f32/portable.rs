//! Micro-kernels in plain Rust: up to 4 rows by 16 columns.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all accesses of a tile rest on the same promise"
)]

use std::marker::PhantomData;

use super::source::{Indirect, Pixels, Source, Strided};
use super::{MicroKernel, MicroKernels, Tile};
use crate::isa::Isa;

const LANES: usize = 8;

pub(super) static KERNELS: MicroKernels = MicroKernels {
    lanes: LANES,
    panel: 2,
    strided: Table::<Strided>::TILES,
    indirect: Table::<Indirect>::TILES,
    isa: Isa::Portable,
    resolve,
};

/// The micro-kernels for a source of rows, in the order of [`MicroKernels::strided`].
struct Table<S>(PhantomData<S>);

impl<S: Source> Table<S> {
    const TILES: &'static [&'static [MicroKernel]] = &[
        &[tile::<1, 1, S>, tile::<2, 1, S>, tile::<3, 1, S>, tile::<4, 1, S>],
        &[tile::<1, 2, S>, tile::<2, 2, S>, tile::<3, 2, S>, tile::<4, 2, S>],
    ];
}

/// Computes a tile of `R` rows by `V` registers.
///
/// # Safety
///
/// The tile has this source. Its pointers are valid for `R` rows, `V` registers, its taps and its depth.
unsafe fn tile<const R: usize, const V: usize, S: Source>(tile: &Tile) {
    let mut start = [[0.0f32; LANES]; V];
    if !tile.bias.is_null() {
        // SAFETY: a bias has a number for each column of the tile.
        let bias = unsafe { std::slice::from_raw_parts(tile.bias, tile.cols) };
        start.as_flattened_mut()[..tile.cols].copy_from_slice(bias);
    }
    let mut sums = [start; R];
    for tap in 0..S::taps(tile) {
        // SAFETY: the table of this function is the source's, and the tile has `R` rows and this tap.
        let Some(rows) = (unsafe { S::rows::<R>(tile, tap) }) else { continue };
        for step in 0..tile.depth {
            // SAFETY: the panel has `depth` rows of `V` registers per tap.
            let b = unsafe { &*tile.b.cast::<[[f32; LANES]; V]>().add(tap * tile.depth + step) };
            for (row, sums) in rows.iter().zip(&mut sums) {
                // SAFETY: each row has `depth` elements per tap.
                let a = unsafe { *row.add(step) };
                for (sums, b) in sums.iter_mut().zip(b) {
                    for (sum, &b) in sums.iter_mut().zip(b) {
                        *sum += a * b;
                    }
                }
            }
        }
    }
    // SAFETY: `C` and the addend have `R` rows with the columns of the tile.
    unsafe { finish(tile, sums) };
}

/// Adds the residual, clamps and stores the sums. A function of its own, because a column count that is known only at
/// run time would keep the sums out of registers in the main loop.
///
/// # Safety
///
/// `C`, and the addend unless null, must be valid for `R` rows of the columns of the tile.
#[inline(never)]
unsafe fn finish<const R: usize, const V: usize>(tile: &Tile, mut sums: [[[f32; LANES]; V]; R]) {
    for (i, row) in sums.iter_mut().enumerate() {
        for (j, sum) in row.as_flattened_mut().iter_mut().take(tile.cols).enumerate() {
            if !tile.add.is_null() {
                // SAFETY: the addend has as many rows and columns as the tile.
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

unsafe fn resolve(pixels: &Pixels, entries: &[u32], pointers: &mut [*const f32]) {
    pixels.resolve(entries, pointers);
}
