//! AVX-512 micro-kernels: 8 rows by 48 columns, 6 by 64, 14 by 32, or 16 by 16.
//!
//! That is 24, 24, 28 and 16 accumulators, enough to hide the latency of multiply-adds and few enough for the
//! registers.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all accesses of a tile rest on the same promise"
)]

use std::arch::x86_64::{
    __m512, __mmask16, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};
use std::marker::PhantomData;

use super::source::{Indirect, Pixels, Source, Strided};
use super::{MicroKernel, MicroKernels, Tile};
use crate::isa::Isa;

const LANES: usize = 16;
/// Prefetch distance of a tile's weights, in steps.
const PREFETCH_STEPS: usize = 16;
/// Steps of the depth that are computed together for a tile of one row.
const STEPS: usize = 4;
/// Prefetch distance of a single row's weights, in elements.
const PREFETCH_ELEMENTS: usize = 1024;

/// Adds the residual, clamps and stores the sums. A macro, because a function would not be inlined into all tiles, and
/// its argument would be passed in memory.
macro_rules! finish {
    ($tile:ident, $sums:ident, $masks:ident) => {
        use std::arch::x86_64::{
            _mm512_add_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps,
            _mm512_min_ps, _mm512_set1_ps,
        };

        if !$tile.add.is_null() {
            for (i, row) in $sums.iter_mut().enumerate() {
                for (v, sum) in row.iter_mut().enumerate() {
                    let address = $tile.add.wrapping_add(i * $tile.ld_add + v * LANES);
                    // SAFETY: lanes outside the mask are not read, the others are inside the slice.
                    let addend = unsafe { _mm512_maskz_loadu_ps($masks[v], address) };
                    *sum = _mm512_add_ps(*sum, addend);
                }
            }
        }
        if let Some((low, high)) = $tile.clamp {
            let (low, high) = (_mm512_set1_ps(low), _mm512_set1_ps(high));
            for sum in $sums.as_flattened_mut() {
                // `min` and `max` return their second operand for NaN.
                *sum = _mm512_min_ps(high, _mm512_max_ps(low, *sum));
            }
        }
        for (i, row) in $sums.iter().enumerate() {
            for (v, &sum) in row.iter().enumerate() {
                let address = $tile.c.wrapping_add(i * $tile.ldc + v * LANES);
                // SAFETY: lanes outside the mask are not written, the others are inside the slice.
                unsafe { _mm512_mask_storeu_ps(address, $masks[v], sum) };
            }
        }
    };
}
pub(super) use finish;

pub(super) static KERNELS: MicroKernels = MicroKernels {
    lanes: LANES,
    panel: 3,
    strided: Table::<Strided>::TILES,
    indirect: Table::<Indirect>::TILES,
    isa: Isa::Avx512,
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
            tile::<11, 1, S>,
            tile::<12, 1, S>,
            tile::<13, 1, S>,
            tile::<14, 1, S>,
            tile::<15, 1, S>,
            tile::<16, 1, S>,
        ],
        &[
            tile::<1, 2, S>,
            tile::<2, 2, S>,
            tile::<3, 2, S>,
            tile::<4, 2, S>,
            tile::<5, 2, S>,
            tile::<6, 2, S>,
            tile::<7, 2, S>,
            tile::<8, 2, S>,
            tile::<9, 2, S>,
            tile::<10, 2, S>,
            tile::<11, 2, S>,
            tile::<12, 2, S>,
            tile::<13, 2, S>,
            tile::<14, 2, S>,
        ],
        &[
            tile::<1, 3, S>,
            tile::<2, 3, S>,
            tile::<3, 3, S>,
            tile::<4, 3, S>,
            tile::<5, 3, S>,
            tile::<6, 3, S>,
            tile::<7, 3, S>,
            tile::<8, 3, S>,
        ],
        &[
            tile::<1, 4, S>,
            tile::<2, 4, S>,
            tile::<3, 4, S>,
            tile::<4, 4, S>,
            tile::<5, 4, S>,
            tile::<6, 4, S>,
        ],
    ];
}

/// Computes a tile of `R` rows by `V` registers.
///
/// # Safety
///
/// The tile has this source. Its pointers are valid for `R` rows, `V` registers, its taps and its depth.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const R: usize, const V: usize, S: Source>(tile: &Tile) {
    let masks = masks::<V>(tile.cols);
    // SAFETY: a bias has a number for each column of the tile.
    let mut sums = [unsafe { bias(tile, masks) }; R];
    if !tile.add.is_null() {
        for i in 0..R {
            for v in 0..V {
                let address = tile.add.wrapping_add(i * tile.ld_add + v * LANES);
                _mm_prefetch::<_MM_HINT_T0>(address.cast());
            }
        }
    }
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
        for step in 0..tile.depth {
            let mut weights = [_mm512_setzero_ps(); V];
            for (v, weights) in weights.iter_mut().enumerate() {
                // SAFETY: the panel has `depth` rows of `V` registers per tap, which `b` walks through.
                *weights = unsafe { _mm512_loadu_ps(b.add(v * LANES)) };
            }
            for v in 0..V {
                _mm_prefetch::<_MM_HINT_T0>(
                    b.wrapping_add((PREFETCH_STEPS * V + v) * LANES).cast(),
                );
            }
            b = b.wrapping_add(V * LANES);
            _mm_prefetch::<_MM_HINT_T1>(prefetch.cast());
            prefetch = prefetch.wrapping_add(LANES);
            for (row, sums) in rows.iter().zip(&mut sums) {
                // SAFETY: each row has `depth` elements per tap.
                let a = _mm512_set1_ps(unsafe { *row.add(step) });
                for (sum, &weights) in sums.iter_mut().zip(&weights) {
                    *sum = _mm512_fmadd_ps(a, weights, *sum);
                }
            }
        }
    }
    finish!(tile, sums, masks);
}

/// Computes the sums of a tile of one row. Four steps with independent sums hide the latency.
///
/// # Safety
///
/// As [`tile()`], with one row.
#[target_feature(enable = "avx512f")]
unsafe fn row<const V: usize, S: Source>(tile: &Tile, start: [__m512; V]) -> [__m512; V] {
    let mut sums = [[_mm512_setzero_ps(); V]; STEPS];
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
                let a = _mm512_set1_ps(unsafe { *row.add(step + i) });
                for (v, sum) in sums.iter_mut().enumerate() {
                    let address = b.wrapping_add((i * V + v) * LANES);
                    _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(PREFETCH_ELEMENTS).cast());
                    // SAFETY: the panel has `depth` rows of `V` registers per tap.
                    *sum = _mm512_fmadd_ps(a, unsafe { _mm512_loadu_ps(address) }, *sum);
                }
            }
            b = b.wrapping_add(STEPS * V * LANES);
            step += STEPS;
        }
        for step in step..tile.depth {
            // SAFETY: the row of `A` has `depth` elements per tap.
            let a = _mm512_set1_ps(unsafe { *row.add(step) });
            for (v, sum) in sums[0].iter_mut().enumerate() {
                // SAFETY: the panel has `depth` rows of `V` registers per tap.
                *sum = _mm512_fmadd_ps(a, unsafe { _mm512_loadu_ps(b.add(v * LANES)) }, *sum);
            }
            b = b.wrapping_add(V * LANES);
        }
    }
    let [mut first, second, third, fourth] = sums;
    for (v, first) in first.iter_mut().enumerate() {
        let upper_sums = _mm512_add_ps(third[v], fourth[v]);
        *first = _mm512_add_ps(_mm512_add_ps(*first, second[v]), upper_sums);
    }
    first
}

/// Returns the mask of valid columns for each register.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn masks<const V: usize>(cols: usize) -> [__mmask16; V] {
    std::array::from_fn(|v| {
        let cols = cols.saturating_sub(v * LANES).min(LANES);
        ((1u32 << cols) - 1) as __mmask16
    })
}

/// Returns the initial sums of a row.
///
/// # Safety
///
/// The bias of the tile must be null or valid for the lanes of the masks.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn bias<const V: usize>(tile: &Tile, masks: [__mmask16; V]) -> [__m512; V] {
    let mut bias = [_mm512_setzero_ps(); V];
    if !tile.bias.is_null() {
        for (v, bias) in bias.iter_mut().enumerate() {
            // SAFETY: `tile.bias` has a number for each lane of the mask; the other lanes are not read.
            *bias = unsafe { _mm512_maskz_loadu_ps(masks[v], tile.bias.wrapping_add(v * LANES)) };
        }
    }
    bias
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) unsafe fn resolve(pixels: &Pixels, entries: &[u32], pointers: &mut [*const f32]) {
    pixels.resolve(entries, pointers);
}
