//! AVX2: products of values widened to 16 bits, which do not saturate, sums modulo 2^32.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the intrinsics have names of their own")
)]

use std::arch::x86_64::*;

use super::{
    Accumulators, Columns, LANES, MR, MicroKernels, Out, Tile, no_op, pack::LINE, requant,
};

pub(super) static KERNELS: MicroKernels =
    MicroKernels { tiles, sum, reach, configure: no_op, release: no_op, mr: MR, fallback: None };

/// # Safety
///
/// The machine has what [`super::Isa::Avx2`] says, the pointers of `tile` are good for what [`Tile`] says, and
/// `out` points to its `count * rows` rows of `columns.count` elements, `stride` apart.
#[target_feature(enable = "avx2")]
unsafe fn tiles(tile: &Tile, columns: &Columns, out: Out, stride: usize) {
    let mut sums = Accumulators::new();
    tile.each(out, stride, |tile, out| {
        // SAFETY: the tile names rows and weights that are there, and `out` is good for its rows of the
        // columns.
        unsafe {
            columns.begin(tile, &mut sums);
            multiply(tile, &mut sums);
            requant::finish(&sums.0[..tile.rows], columns, out, stride);
        }
    });
}

#[target_feature(enable = "avx2")]
unsafe fn sum(values: &[u8]) -> i32 {
    requant::sum(values)
}

#[target_feature(enable = "avx2")]
unsafe fn reach(table: &[u32]) -> (u32, bool) {
    requant::reach(table)
}

/// Adds the products to the sums.
///
/// # Safety
///
/// As of [`tiles`].
#[target_feature(enable = "avx2")]
unsafe fn multiply(tile: &Tile, sums: &mut Accumulators) {
    for eight in 0..tile.vectors * 2 {
        let mut row = 0;
        while row < tile.rows {
            let count = (tile.rows - row).min(4);
            // SAFETY: rows `row..row + count` and the columns `eight` are within the tile.
            unsafe {
                match count {
                    1 => rows::<1>(tile, row, eight, sums),
                    2 => rows::<2>(tile, row, eight, sums),
                    3 => rows::<3>(tile, row, eight, sums),
                    _ => rows::<4>(tile, row, eight, sums),
                }
            }
            row += count;
        }
    }
}

/// Eight columns of `ROWS` rows.
///
/// # Safety
///
/// As of [`multiply`]; `ROWS` rows from `row` on are within the tile, and so are the columns.
#[target_feature(enable = "avx2")]
unsafe fn rows<const ROWS: usize>(tile: &Tile, row: usize, eight: usize, sums: &mut Accumulators) {
    // The columns are within the tile.
    let mut b = tile.b.wrapping_add(eight * (LINE / 2));
    // Each column's sum is in two lanes: of the values 0 and 1 of a group, and of 2 and 3.
    let mut totals = [[_mm256_setzero_si256(); 2]; ROWS];
    for tap in 0..tile.taps {
        // SAFETY: the rows and the tap are of the tile.
        let a: [*const u8; ROWS] = std::array::from_fn(|i| unsafe { tile.tap_ptr(row + i, tap) });
        for group in 0..tile.groups + usize::from(tile.tail > 0) {
            // SAFETY: `Tile` says that the group is readable; this is half of a vector.
            let weights = unsafe {
                [
                    _mm256_cvtepi8_epi16(_mm_loadu_si128(b.cast())),
                    _mm256_cvtepi8_epi16(_mm_loadu_si128(b.add(LANES).cast())),
                ]
            };
            for (a, totals) in a.iter().zip(&mut totals) {
                let from = a.wrapping_add(group * 4);
                let four = if group < tile.groups {
                    // SAFETY: `Tile` says that these four values are readable.
                    unsafe { from.cast::<i32>().read_unaligned() }
                } else {
                    // SAFETY: `Tile` says that the row has `tail` more values.
                    i32::from_le_bytes(unsafe { tile.tail(from) })
                };
                let four = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
                for (total, &weights) in totals.iter_mut().zip(&weights) {
                    *total = _mm256_add_epi32(*total, _mm256_madd_epi16(four, weights));
                }
            }
            b = b.wrapping_add(tile.vectors * LINE);
        }
    }
    for (i, totals) in totals.iter().enumerate() {
        // Pairs are added within halves: columns 0, 1, 4, 5 and 2, 3, 6, 7.
        let pairs = _mm256_hadd_epi32(totals[0], totals[1]);
        let total = _mm256_permute4x64_epi64::<0b11_01_10_00>(pairs);
        let to = sums.0[row + i][eight * 8..][..8].as_mut_ptr();
        // SAFETY: these are eight sums.
        unsafe {
            let before = _mm256_loadu_si256(to.cast());
            _mm256_storeu_si256(to.cast(), _mm256_add_epi32(total, before));
        }
    }
}
