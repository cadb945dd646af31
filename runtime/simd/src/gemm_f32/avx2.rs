//! AVX2 micro-kernels: 6 rows by 16 columns, or 10 by 8.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all accesses of a tile rest on the same promise"
)]

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm256_add_ps, _mm256_cmpgt_epi32,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps,
    _mm256_min_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps,
};
use std::marker::PhantomData;

use super::source::{Indirect, Pixels, Source, Strided};
use super::{MicroKernel, MicroKernels, Tile};
use crate::isa::Isa;

const LANES: usize = 8;
/// Steps of the depth that are computed together if there are few sums, to hide the latency of multiply-adds.
const STEPS: usize = 4;
/// Prefetch distance of a single row's weights, in elements.
const PREFETCH_ELEMENTS: usize = 1024;

pub(super) static KERNELS: MicroKernels = MicroKernels {
    lanes: LANES,
    panel: 2,
    strided: Table::<Strided>::TILES,
    indirect: Table::<Indirect>::TILES,
    isa: Isa::Avx2,
    resolve,
};

/// The micro-kernels for a source of rows, in the order of [`MicroKernels::strided`].
struct Table<S>(PhantomData<S>);

impl<S: Source> Table<S> {
    const TILES: &'static [&'static [MicroKernel]] = &[
        &[
            tile::<1, 1, S>,
            tile::<2, 1, S>,
            tile::<3, 1, S>,
            tile::<4, 1, S>,
            tile::<5, 1, S>,
            tile::<6, 1, S>,
            tile::<7, 1, S>,
            tile::<8, 1, S>,
            tile::<9, 1, S>,
            tile::<10, 1, S>,
        ],
        &[
            tile::<1, 2, S>,
            tile::<2, 2, S>,
            tile::<3, 2, S>,
            tile::<4, 2, S>,
            tile::<5, 2, S>,
            tile::<6, 2, S>,
        ],
    ];
}

/// Computes a tile of `R` rows by `V` registers.
///
/// # Safety
///
/// The tile has this source. Its pointers are valid for `R` rows, `V` registers, its taps and its depth.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const R: usize, const V: usize, S: Source>(tile: &Tile) {
    let masks = masks::<V>(tile.cols);
    // SAFETY: a bias has a number for each column of the tile.
    let mut sums = [unsafe { bias(tile, masks) }; R];
    if R == 1 {
        // SAFETY: `R` is 1, and the tile's `a` (or table), `b` and `bias` are valid for one row and
        // `V` registers.
        sums[0] = unsafe { row::<V, S>(tile, sums[0]) };
    }
    let (mut b, mut prefetch) = (tile.b, tile.prefetch);
    let taps = if R == 1 { 0 } else { S::taps(tile) };
    for tap in 0..taps {
        // SAFETY: the table of this function is the source's, and the tile has `R` rows and this tap.
        let Some(rows) = (unsafe { S::rows::<R>(tile, tap) }) else {
            b = b.wrapping_add(tile.depth * V * LANES);
            continue;
        };
        let mut step = 0;
        // With one register per row, loading the addresses of rows is the bottleneck, so each load serves several
        // steps.
        while V == 1 && step + STEPS <= tile.depth {
            let mut weights = [_mm256_setzero_ps(); STEPS];
            for (i, weights) in weights.iter_mut().enumerate() {
                // SAFETY: the panel has `depth` rows of one register per tap, which `b` walks through.
                *weights = unsafe { _mm256_loadu_ps(b.add(i * LANES)) };
            }
            b = b.wrapping_add(STEPS * LANES);
            for (row, sums) in rows.iter().zip(&mut sums) {
                for (i, &weights) in weights.iter().enumerate() {
                    // SAFETY: each row has `depth` elements per tap.
                    let a = _mm256_set1_ps(unsafe { *row.add(step + i) });
                    sums[0] = _mm256_fmadd_ps(a, weights, sums[0]);
                }
            }
            step += STEPS;
        }
        for step in step..tile.depth {
            let mut weights = [_mm256_setzero_ps(); V];
            for (v, weights) in weights.iter_mut().enumerate() {
                // SAFETY: the panel has `depth` rows of `V` registers per tap, which `b` walks through.
                *weights = unsafe { _mm256_loadu_ps(b.add(v * LANES)) };
            }
            b = b.wrapping_add(V * LANES);
            _mm_prefetch::<_MM_HINT_T1>(prefetch.cast());
            prefetch = prefetch.wrapping_add(16);
            for (row, sums) in rows.iter().zip(&mut sums) {
                // SAFETY: each row has `depth` elements per tap.
                let a = _mm256_set1_ps(unsafe { *row.add(step) });
                for (sum, &weights) in sums.iter_mut().zip(&weights) {
                    *sum = _mm256_fmadd_ps(a, weights, *sum);
                }
            }
        }
    }
    if !tile.add.is_null() {
        for (i, row) in sums.iter_mut().enumerate() {
            for (v, sum) in row.iter_mut().enumerate() {
                let address = tile.add.wrapping_add(i * tile.ld_add + v * LANES);
                // SAFETY: lanes outside the mask are not read, the others are inside the slice.
                *sum = _mm256_add_ps(*sum, unsafe { _mm256_maskload_ps(address, masks[v]) });
            }
        }
    }
    if let Some((low, high)) = tile.clamp {
        let (low, high) = (_mm256_set1_ps(low), _mm256_set1_ps(high));
        for sum in sums.as_flattened_mut() {
            // `min` and `max` return their second operand for NaN.
            *sum = _mm256_min_ps(high, _mm256_max_ps(low, *sum));
        }
    }
    for (i, row) in sums.iter().enumerate() {
        for (v, &sum) in row.iter().enumerate() {
            let address = tile.c.wrapping_add(i * tile.ldc + v * LANES);
            // SAFETY: lanes outside the mask are not written, the others are inside the slice.
            unsafe { _mm256_maskstore_ps(address, masks[v], sum) };
        }
    }
}

/// Computes the sums of a tile of one row. Four steps with independent sums hide the latency.
///
/// # Safety
///
/// As [`tile()`], with one row.
#[target_feature(enable = "avx2,fma")]
unsafe fn row<const V: usize, S: Source>(tile: &Tile, start: [__m256; V]) -> [__m256; V] {
    let mut sums = [[_mm256_setzero_ps(); V]; STEPS];
    sums[0] = start;
    let mut b = tile.b;
    for tap in 0..S::taps(tile) {
        // SAFETY: the table of this function is the source's, and the tile has one row and this tap.
        let Some([row]) = (unsafe { S::rows::<1>(tile, tap) }) else {
            b = b.wrapping_add(tile.depth * V * LANES);
            continue;
        };
        let mut step = 0;
        while step + STEPS <= tile.depth {
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the row of `A` has `depth` elements per tap.
                let a = _mm256_set1_ps(unsafe { *row.add(step + i) });
                for (v, sum) in sums.iter_mut().enumerate() {
                    let address = b.wrapping_add((i * V + v) * LANES);
                    _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(PREFETCH_ELEMENTS).cast());
                    // SAFETY: the panel has `depth` rows of `V` registers per tap.
                    *sum = _mm256_fmadd_ps(a, unsafe { _mm256_loadu_ps(address) }, *sum);
                }
            }
            b = b.wrapping_add(STEPS * V * LANES);
            step += STEPS;
        }
        for step in step..tile.depth {
            // SAFETY: the row of `A` has `depth` elements per tap.
            let a = _mm256_set1_ps(unsafe { *row.add(step) });
            for (v, sum) in sums[0].iter_mut().enumerate() {
                // SAFETY: the panel has `depth` rows of `V` registers per tap.
                *sum = _mm256_fmadd_ps(a, unsafe { _mm256_loadu_ps(b.add(v * LANES)) }, *sum);
            }
            b = b.wrapping_add(V * LANES);
        }
    }
    let [mut first, second, third, fourth] = sums;
    for (v, first) in first.iter_mut().enumerate() {
        let upper_sums = _mm256_add_ps(third[v], fourth[v]);
        *first = _mm256_add_ps(_mm256_add_ps(*first, second[v]), upper_sums);
    }
    first
}

/// Returns the mask of valid columns for each register.
#[target_feature(enable = "avx2")]
fn masks<const V: usize>(cols: usize) -> [__m256i; V] {
    let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mut masks = [lane; V];
    for (v, mask) in masks.iter_mut().enumerate() {
        let cols = cols.saturating_sub(v * LANES).min(LANES);
        *mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(cols as i32), lane);
    }
    masks
}

/// Returns the initial sums of a row.
///
/// # Safety
///
/// The bias of the tile must be null or valid for the lanes of the masks.
#[target_feature(enable = "avx2")]
unsafe fn bias<const V: usize>(tile: &Tile, masks: [__m256i; V]) -> [__m256; V] {
    let mut bias = [_mm256_setzero_ps(); V];
    if !tile.bias.is_null() {
        for (v, bias) in bias.iter_mut().enumerate() {
            // SAFETY: `tile.bias` has a number for each lane of the mask; the other lanes are not read.
            *bias = unsafe { _mm256_maskload_ps(tile.bias.wrapping_add(v * LANES), masks[v]) };
        }
    }
    bias
}

#[target_feature(enable = "avx2")]
unsafe fn resolve(pixels: &Pixels, entries: &[u32], pointers: &mut [*const f32]) {
    pixels.resolve(entries, pointers);
}
