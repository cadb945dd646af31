//! Tiles in AVX2: 6 rows by 16 columns, or 10 by 8.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all accesses of a tile rest on the same promise"
)]

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm256_add_ps, _mm256_cmpgt_epi32,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps,
    _mm256_min_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps,
};

use super::epilogue::Curve;
use super::{Forms, Tile};

const LANES: usize = 8;
/// How far ahead a single row reads weights, in elements.
const STREAM: usize = 1024;

pub(super) static FORMS: Forms = Forms {
    lanes: LANES,
    panel: 2,
    tiles: &[
        &[
            row::<1>,
            tile::<2, 1>,
            tile::<3, 1>,
            tile::<4, 1>,
            tile::<5, 1>,
            tile::<6, 1>,
            tile::<7, 1>,
            tile::<8, 1>,
            tile::<9, 1>,
            tile::<10, 1>,
        ],
        &[row::<2>, tile::<2, 2>, tile::<3, 2>, tile::<4, 2>, tile::<5, 2>, tile::<6, 2>],
    ],
    curve,
};

/// # Safety
///
/// The pointers of the tile must be good for `R` rows, `V` registers and the depth that it names.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const R: usize, const V: usize>(tile: &Tile) {
    let masks = masks::<V>(tile.cols);
    // SAFETY: a bias has a number for each column of the tile.
    let mut sums = [unsafe { bias(tile, masks) }; R];
    let (mut b, mut ahead) = (tile.b, tile.ahead);
    for step in 0..tile.depth {
        let mut weights = [_mm256_setzero_ps(); V];
        for (v, weights) in weights.iter_mut().enumerate() {
            // SAFETY: the panel has `depth` rows of `V` registers, of which `step` lie before `b`.
            *weights = unsafe { _mm256_loadu_ps(b.add(v * LANES)) };
        }
        b = b.wrapping_add(V * LANES);
        _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
        ahead = ahead.wrapping_add(16);
        for (i, row) in sums.iter_mut().enumerate() {
            // SAFETY: `A` has `R` rows of `depth` elements.
            let a = _mm256_set1_ps(unsafe { *tile.a.add(i * tile.lda + step) });
            for (sum, &weights) in row.iter_mut().zip(&weights) {
                *sum = _mm256_fmadd_ps(a, weights, *sum);
            }
        }
    }
    // SAFETY: `C`, and what is added, have `R` rows with the columns of the tile.
    unsafe { finish(tile, masks, sums) };
}

/// A tile of one row, which reads each weight once: four steps at a time hide the latency.
///
/// # Safety
///
/// As [`tile()`], with one row.
#[target_feature(enable = "avx2,fma")]
unsafe fn row<const V: usize>(tile: &Tile) {
    const STEPS: usize = 4;
    let masks = masks::<V>(tile.cols);
    let mut sums = [[_mm256_setzero_ps(); V]; STEPS];
    // SAFETY: a bias has a number for each column of the tile.
    sums[0] = unsafe { bias(tile, masks) };
    let mut b = tile.b;
    let mut step = 0;
    while step + STEPS <= tile.depth {
        for (i, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the row of `A` has `depth` elements.
            let a = _mm256_set1_ps(unsafe { *tile.a.add(step + i) });
            for (v, sum) in sums.iter_mut().enumerate() {
                let at = b.wrapping_add((i * V + v) * LANES);
                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(STREAM).cast());
                // SAFETY: the panel has `depth` rows of `V` registers, of which `step` lie before `b`.
                *sum = _mm256_fmadd_ps(a, unsafe { _mm256_loadu_ps(at) }, *sum);
            }
        }
        b = b.wrapping_add(STEPS * V * LANES);
        step += STEPS;
    }
    for step in step..tile.depth {
        // SAFETY: the row of `A` has `depth` elements.
        let a = _mm256_set1_ps(unsafe { *tile.a.add(step) });
        for (v, sum) in sums[0].iter_mut().enumerate() {
            // SAFETY: the panel has `depth` rows of `V` registers, of which `step` lie before `b`.
            *sum = _mm256_fmadd_ps(a, unsafe { _mm256_loadu_ps(b.add(v * LANES)) }, *sum);
        }
        b = b.wrapping_add(V * LANES);
    }
    let [mut total, second, third, fourth] = sums;
    for (v, total) in total.iter_mut().enumerate() {
        let rest = _mm256_add_ps(third[v], fourth[v]);
        *total = _mm256_add_ps(_mm256_add_ps(*total, second[v]), rest);
    }
    // SAFETY: `C`, and what is added, have a row with the columns of the tile.
    unsafe { finish(tile, masks, [total]) };
}

/// Which lanes of each register are columns.
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

/// What a row of sums starts from.
///
/// # Safety
///
/// The bias of the tile must be null or good for the lanes of the masks.
#[target_feature(enable = "avx2")]
unsafe fn bias<const V: usize>(tile: &Tile, masks: [__m256i; V]) -> [__m256; V] {
    let mut bias = [_mm256_setzero_ps(); V];
    if !tile.bias.is_null() {
        for (v, bias) in bias.iter_mut().enumerate() {
            // SAFETY: lanes outside the mask are not read, the others by the caller's promise are there.
            *bias = unsafe { _mm256_maskload_ps(tile.bias.wrapping_add(v * LANES), masks[v]) };
        }
    }
    bias
}

/// Adds, clamps and stores.
///
/// # Safety
///
/// `C`, and what is added unless null, must be good for `R` rows of the lanes of the masks.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn finish<const R: usize, const V: usize>(
    tile: &Tile,
    masks: [__m256i; V],
    mut sums: [[__m256; V]; R],
) {
    if !tile.add.is_null() {
        for (i, row) in sums.iter_mut().enumerate() {
            for (v, sum) in row.iter_mut().enumerate() {
                let at = tile.add.wrapping_add(i * tile.ld_add + v * LANES);
                // SAFETY: lanes outside the mask are not read, the others are there.
                *sum = _mm256_add_ps(*sum, unsafe { _mm256_maskload_ps(at, masks[v]) });
            }
        }
    }
    if let Some((low, high)) = tile.clamp {
        let (low, high) = (_mm256_set1_ps(low), _mm256_set1_ps(high));
        for sum in sums.as_flattened_mut() {
            // With the sum second, NaN stays NaN.
            *sum = _mm256_min_ps(high, _mm256_max_ps(low, *sum));
        }
    }
    for (i, row) in sums.iter().enumerate() {
        for (v, &sum) in row.iter().enumerate() {
            let at = tile.c.wrapping_add(i * tile.ldc + v * LANES);
            // SAFETY: lanes outside the mask are not written, the others are there.
            unsafe { _mm256_maskstore_ps(at, masks[v], sum) };
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn curve(curve: Curve, values: &mut [f32]) {
    curve.apply(values);
}
