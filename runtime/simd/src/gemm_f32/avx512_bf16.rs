//! AVX512-BF16 micro-kernels with the tile sizes of AVX-512. A step of the depth processes two values: each 32-bit word
//! of `A` and of packed `B` holds two bf16 values, the earlier one in the low half.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "all accesses of a tile rest on the same promise"
)]

use std::arch::x86_64::{
    __m512bh, __m512i, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_dpbf16_ps,
    _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
};

use super::avx512::{bias, finish, masks, resolve};
use super::source::{Source, Strided};
use super::{MicroKernel, MicroKernels, Tile};
use crate::isa::Isa;

const LANES: usize = 16;
/// Prefetch distance for weights, in steps.
const PREFETCH_STEPS: usize = 16;

pub(super) static KERNELS: MicroKernels = MicroKernels {
    lanes: LANES,
    panel: 3,
    strided: TILES,
    // Rows are gathered while they are rounded.
    indirect: &[],
    isa: Isa::Avx512,
    resolve,
};

const TILES: &[&[MicroKernel]] = &[
    &[
        tile::<1, 1>,
        tile::<2, 1>,
        tile::<3, 1>,
        tile::<4, 1>,
        tile::<5, 1>,
        tile::<6, 1>,
        tile::<7, 1>,
        tile::<8, 1>,
        tile::<9, 1>,
        tile::<10, 1>,
        tile::<11, 1>,
        tile::<12, 1>,
        tile::<13, 1>,
        tile::<14, 1>,
        tile::<15, 1>,
        tile::<16, 1>,
    ],
    &[
        tile::<1, 2>,
        tile::<2, 2>,
        tile::<3, 2>,
        tile::<4, 2>,
        tile::<5, 2>,
        tile::<6, 2>,
        tile::<7, 2>,
        tile::<8, 2>,
        tile::<9, 2>,
        tile::<10, 2>,
        tile::<11, 2>,
        tile::<12, 2>,
        tile::<13, 2>,
        tile::<14, 2>,
    ],
    &[
        tile::<1, 3>,
        tile::<2, 3>,
        tile::<3, 3>,
        tile::<4, 3>,
        tile::<5, 3>,
        tile::<6, 3>,
        tile::<7, 3>,
        tile::<8, 3>,
    ],
    &[tile::<1, 4>, tile::<2, 4>, tile::<3, 4>, tile::<4, 4>, tile::<5, 4>, tile::<6, 4>],
];

/// Computes a tile of `R` rows by `V` registers.
///
/// # Safety
///
/// The tile has strided rows. Its pointers are valid for `R` rows, `V` registers and its depth.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile<const R: usize, const V: usize>(tile: &Tile) {
    let masks = masks::<V>(tile.cols);
    // SAFETY: a bias has a number for each column of the tile.
    let mut sums = [unsafe { bias(tile, masks) }; R];
    // SAFETY: the tile has strided rows, `R` of them, and so one tap.
    let rows = unsafe { Strided::rows::<R>(tile, 0) };
    let rows = rows.unwrap_or([tile.a; R]);
    let (mut b, mut prefetch) = (tile.b, tile.prefetch);
    for step in 0..tile.depth {
        let mut weights = [_mm512_setzero_si512(); V];
        for (v, weights) in weights.iter_mut().enumerate() {
            // SAFETY: the panel has `depth` rows of `V` registers, which `b` walks through.
            *weights = unsafe { _mm512_loadu_si512(b.add(v * LANES).cast()) };
        }
        for v in 0..V {
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add((PREFETCH_STEPS * V + v) * LANES).cast());
        }
        b = b.wrapping_add(V * LANES);
        _mm_prefetch::<_MM_HINT_T1>(prefetch.cast());
        prefetch = prefetch.wrapping_add(LANES);
        for (row, sums) in rows.iter().zip(&mut sums) {
            // SAFETY: each row has `depth` words.
            let a = _mm512_set1_epi32(unsafe { row.cast::<i32>().add(step).read() });
            for (sum, &weights) in sums.iter_mut().zip(&weights) {
                *sum = _mm512_dpbf16_ps(*sum, pairs(a), pairs(weights));
            }
        }
    }
    finish!(tile, sums, masks);
}

/// Reinterprets words as pairs of bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs(words: __m512i) -> __m512bh {
    // SAFETY: both types are 512 bits, for which any bits are valid.
    unsafe { std::mem::transmute(words) }
}
