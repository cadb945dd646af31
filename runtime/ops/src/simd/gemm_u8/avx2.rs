//! AVX2: products of codes widened to 16 bits, which do not saturate, sums modulo 2^32.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the intrinsics have names of their own")
)]

use std::arch::x86_64::*;

use super::{
    Forms, LANES, Row, Sums, Then, Tile,
    pack::GROUP_BYTES,
    requant::{self, Columns, Finish},
};

pub(super) const FORMS: Forms = Forms { multiply, finish_i32, finish_f32, finish_u8 };

/// # Safety
///
/// The machine has what [`super::Isa::Avx2`] says, and `tile` keeps its word.
#[target_feature(enable = "avx2")]
unsafe fn multiply(tile: &Tile, start: &Row, sums: &mut Sums) {
    for eight in 0..tile.vectors * 2 {
        let mut row = 0;
        while row < tile.rows {
            let count = (tile.rows - row).min(4);
            // SAFETY: passed on; the rows and columns are within the tile.
            unsafe {
                match count {
                    1 => rows::<1>(tile, row, eight, start, sums),
                    2 => rows::<2>(tile, row, eight, start, sums),
                    3 => rows::<3>(tile, row, eight, start, sums),
                    _ => rows::<4>(tile, row, eight, start, sums),
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
unsafe fn rows<const ROWS: usize>(
    tile: &Tile,
    row: usize,
    eight: usize,
    start: &Row,
    sums: &mut Sums,
) {
    // SAFETY: the row and the columns are within the tile.
    let (mut a, mut b) =
        unsafe { (tile.a.add(row * tile.stride), tile.b[eight / 2].add(eight % 2 * (LANES * 2))) };
    // Each column's sum is in two lanes: of the codes 0 and 1 of a group, and of 2 and 3.
    let mut totals = [[_mm256_setzero_si256(); 2]; ROWS];
    for group in 0..tile.groups + usize::from(tile.tail > 0) {
        // SAFETY: `Tile` says that the group is readable; this is half of a vector.
        let codes = unsafe {
            [
                _mm256_cvtepi8_epi16(_mm_loadu_si128(b.cast())),
                _mm256_cvtepi8_epi16(_mm_loadu_si128(b.add(LANES).cast())),
            ]
        };
        for (i, totals) in totals.iter_mut().enumerate() {
            let four = if group < tile.groups {
                // SAFETY: `Tile` says that the row has these four codes.
                unsafe { a.add(i * tile.stride).cast::<i32>().read_unaligned() }
            } else {
                let mut four = [0u8; 4];
                for (k, code) in four[..tile.tail].iter_mut().enumerate() {
                    // SAFETY: `Tile` says that the row has `tail` more codes.
                    *code = unsafe { a.add(i * tile.stride + k).read() };
                }
                i32::from_le_bytes(four)
            };
            let four = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
            for (total, &codes) in totals.iter_mut().zip(&codes) {
                *total = _mm256_add_epi32(*total, _mm256_madd_epi16(four, codes));
            }
        }
        a = a.wrapping_add(4);
        b = b.wrapping_add(GROUP_BYTES);
    }
    for (i, totals) in totals.iter().enumerate() {
        // Pairs are added within halves: columns 0, 1, 4, 5 and 2, 3, 6, 7.
        let pairs = _mm256_hadd_epi32(totals[0], totals[1]);
        let total = _mm256_permute4x64_epi64::<0b11_01_10_00>(pairs);
        // SAFETY: a row of sums, and of what they start with, has room for all columns of a tile.
        unsafe {
            let start = _mm256_loadu_si256(start.as_ptr().add(eight * 8).cast());
            let to = sums.0[row + i].as_mut_ptr().add(eight * 8);
            _mm256_storeu_si256(to.cast(), _mm256_add_epi32(total, start));
        }
    }
}

/// # Safety
///
/// The machine has what [`super::Isa::Avx2`] says; so for the next two.
#[target_feature(enable = "avx2")]
unsafe fn finish_i32(sums: &[Row], columns: &Columns, out: Finish<'_, i32>) {
    requant::finish_i32(sums, columns, out);
}

#[target_feature(enable = "avx2")]
unsafe fn finish_f32(sums: &[Row], columns: &Columns, out: Finish<'_, f32>, then: Then) {
    requant::finish_f32(sums, columns, out, then);
}

#[target_feature(enable = "avx2")]
unsafe fn finish_u8(
    sums: &[Row],
    columns: &Columns,
    out: Finish<'_, u8>,
    zero_point: i16,
    flip: u8,
) {
    requant::finish_u8(sums, columns, out, zero_point, flip);
}
