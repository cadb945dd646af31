//! The packing of left-side rows that the AMX kernels cannot read in place: gathered rows, and rows at the end of the
//! data, which end within a step (64 bytes of the depth).

use std::arch::x86_64::{
    _mm256_maskz_loadu_epi32, _mm512_add_epi64, _mm512_cmpeq_epi64_mask, _mm512_cvtepu32_epi64,
    _mm512_loadu_si512, _mm512_mask_mov_epi64, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_mullo_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_store_si512,
};
use std::ptr::with_exposed_provenance;

use super::registers::{STEP, TILE};
use crate::gemm_u8::{PADDING, Tile};

/// Taps whose pixels are looked up at a time.
const TAPS: usize = 8;

/// The values of 16 rows in one step of the depth.
#[repr(C, align(64))]
pub(super) struct TileRows([[u8; STEP]; TILE]);

/// Packs the rows of a tile, step by step, with zeros past the depth.
pub(super) struct PackA<'a> {
    tile: &'a Tile,
    /// The first row, and the number of rows.
    row: usize,
    height: usize,
    /// Values per tap, and the same rounded up to whole groups.
    width: usize,
    padded: usize,
    /// The current position: a tap, and a value within it.
    tap: usize,
    within: usize,
    /// The addresses of the eight taps that were looked up last, and the number of those eight.
    pixels: Pixels,
    looked_up: usize,
}

/// The addresses of 16 rows' taps. Vectors compute them, so that pointers are recreated from exposed provenance.
#[repr(align(64))]
struct Pixels([[usize; TAPS]; TILE]);

impl<'a> PackA<'a> {
    /// Starts packing at most 16 rows from `row` on, from a step of the depth on.
    pub(super) fn new(tile: &'a Tile, row: usize, step: usize) -> Self {
        let width = tile.groups * 4 + tile.tail;
        let padded = width.next_multiple_of(4);
        Self {
            tile,
            row,
            height: TILE.min(tile.rows - row),
            width,
            padded,
            tap: step * STEP / padded,
            within: step * STEP % padded,
            pixels: Pixels([[0; TAPS]; TILE]),
            looked_up: usize::MAX,
        }
    }

    /// Packs the next step of the depth.
    ///
    /// # Safety
    ///
    /// The tile's pointers are valid as [`Tile`] states, and it has these rows; the machine has the features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn step(&mut self, to: &mut TileRows) {
        let mut position = 0;
        while position < STEP && self.tap < self.tile.taps {
            if self.tap / TAPS != self.looked_up {
                self.looked_up = self.tap / TAPS;
                // SAFETY: `tap` is below the tile's taps, whose entries its table has for these rows.
                unsafe { self.look_up() };
            }
            let chunk = (self.padded - self.within).min(STEP - position);
            let value_count = chunk.min(self.width.saturating_sub(self.within));
            let from =
                self.pixels.0.iter().map(|row| with_exposed_provenance::<u8>(row[self.tap % TAPS]));
            let rows = to.0.iter_mut().zip(from).take(self.height);
            if value_count == STEP {
                for (to, from) in rows {
                    // SAFETY: the tap has that many values from this position on.
                    unsafe {
                        let values = _mm512_loadu_si512(from.wrapping_add(self.within).cast());
                        _mm512_store_si512(to.as_mut_ptr().cast(), values);
                    }
                }
            } else {
                let load = (1u64 << value_count) - 1;
                let store = u64::MAX >> (STEP - chunk) << position;
                for (to, from) in rows {
                    // SAFETY: the row has `value_count` values at `from + within`, and a line has room from `position`
                    // on; the masks keep to both.
                    unsafe {
                        let from = from.wrapping_add(self.within).wrapping_sub(position);
                        let values = _mm512_maskz_loadu_epi8(load << position, from.cast());
                        _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), store, values);
                    }
                }
            }
            position += chunk;
            self.within += chunk;
            if self.within == self.padded {
                (self.tap, self.within) = (self.tap + 1, 0);
            }
        }
        if position < STEP {
            for to in &mut to.0[..self.height] {
                // SAFETY: the mask keeps to the row.
                unsafe {
                    let zero = _mm512_setzero_si512();
                    _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), u64::MAX << position, zero);
                }
            }
        }
    }

    /// Looks up the addresses of the next eight taps.
    ///
    /// # Safety
    ///
    /// As for [`Self::step`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn look_up(&mut self) {
        let Self { tile, row, height, .. } = *self;
        let pixels = self.pixels.0[..height].iter_mut().enumerate();
        if tile.table.is_null() {
            for (i, pixels) in pixels {
                pixels[0] = tile.a.wrapping_add((row + i) * tile.stride).expose_provenance();
            }
            return;
        }
        let tap = self.looked_up * TAPS;
        let mask = u8::MAX >> (TAPS - (tile.taps - tap).min(TAPS));
        let splat = |number: usize| _mm512_set1_epi64(number.cast_signed() as i64);
        let (first, stride) = (splat(tile.a.expose_provenance()), splat(tile.stride));
        let (padding, padding_entry) =
            (splat(tile.padding.expose_provenance()), _mm512_set1_epi64(PADDING.into()));
        for (i, pixels) in pixels {
            // SAFETY: the table has an entry for each tap of each row; the mask keeps to the taps.
            unsafe {
                let address = tile.table.add((row + i) * tile.taps + tap);
                let entries = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(mask, address.cast()));
                let pixels_in_image = _mm512_add_epi64(first, _mm512_mullo_epi64(entries, stride));
                let is_outside = _mm512_cmpeq_epi64_mask(entries, padding_entry);
                let pointers = _mm512_mask_mov_epi64(pixels_in_image, is_outside, padding);
                _mm512_store_si512(pixels.as_mut_ptr().cast(), pointers);
            }
        }
    }
}
