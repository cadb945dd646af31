//! The epilogue of the AMX kernels: converts sums that the tile registers have stored to the output's type, and writes
//! them.

use std::arch::x86_64::{
    _mm512_load_si512, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_store_si512, _mm512_sub_epi32,
};
use std::ops::Range;

use crate::gemm_u8::{Columns, LANES, Out, Row, Tile, avx512};

/// Rows with complete sums, of which some are already written.
pub(super) struct Epilogue<'a, const VECTORS: usize> {
    pub(super) tile: &'a Tile,
    pub(super) columns: &'a Columns,
    pub(super) out: Out,
    pub(super) stride: usize,
    /// Sums of the rows from `top` on.
    pub(super) sums: *mut Row,
    /// See [`Run`](super::Run).
    pub(super) row_mask: usize,
    pub(super) top: usize,
    /// The rows left to write.
    pub(super) rows: Range<usize>,
}

impl<const VECTORS: usize> Epilogue<'_, VECTORS> {
    /// Writes at most `count` rows.
    ///
    /// # Safety
    ///
    /// The sums of the remaining rows are stored, and `out` is valid for all rows of the columns.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn write_rows(&mut self, count: usize) {
        let count = count.min(self.rows.len());
        if count == 0 {
            return;
        }
        let row = self.rows.start;
        self.rows.start += count;
        let (columns, stride) = (self.columns, self.stride);
        let out = self.out.skip(row * stride);
        // SAFETY: `sums` has the rows from `top` on, of which `count` are left; `out` is valid for
        // them, `stride` apart.
        unsafe {
            let sums = self.sums.add((row - self.top) & self.row_mask);
            let sums = std::slice::from_raw_parts_mut(sums, count);
            if columns.has_zero_points {
                for (i, sums) in sums.iter_mut().enumerate() {
                    self.shift(sums, *self.tile.row_sums.add(row + i));
                }
            }
            let (groups_of_4, remaining) = sums.as_chunks::<4>();
            for (i, rows_of_group) in groups_of_4.iter().enumerate() {
                write::<4, VECTORS>(rows_of_group, columns, out.skip(i * 4 * stride), stride);
            }
            for (i, row_sums) in remaining.iter().enumerate() {
                let out = out.skip((groups_of_4.len() * 4 + i) * stride);
                write::<1, VECTORS>(std::array::from_ref(row_sums), columns, out, stride);
            }
        }
    }

    /// Subtracts the columns' zero points times the sum of the row's values.
    #[target_feature(enable = "avx512f")]
    fn shift(&self, sums: &mut Row, row_sum: i32) {
        let row_sum = _mm512_set1_epi32(row_sum);
        for v in 0..VECTORS {
            let zeros = self.columns.zero_points.as_ptr().wrapping_add(v * LANES);
            let address = sums.as_mut_ptr().wrapping_add(v * LANES);
            // SAFETY: a row of sums and the columns have 4 vectors, each at a multiple of its size.
            unsafe {
                let zeros = _mm512_mullo_epi32(_mm512_load_si512(zeros.cast()), row_sum);
                let sums = _mm512_sub_epi32(_mm512_load_si512(address.cast()), zeros);
                _mm512_store_si512(address.cast(), sums);
            }
        }
    }
}

/// Writes `ROWS` rows.
///
/// # Safety
///
/// As for [`Epilogue::write_rows`], for these rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn write<const ROWS: usize, const VECTORS: usize>(
    rows: &[Row; ROWS],
    columns: &Columns,
    out: Out,
    stride: usize,
) {
    let mut totals = [[_mm512_setzero_si512(); VECTORS]; ROWS];
    for i in 0..ROWS {
        for v in 0..VECTORS {
            let address = rows[i].as_ptr().wrapping_add(v * LANES);
            // SAFETY: a row of sums has 4 vectors, each at a multiple of its size.
            totals[i][v] = unsafe { _mm512_load_si512(address.cast()) };
        }
    }
    // SAFETY: `out` is valid for `ROWS` rows of the columns, `stride` apart; the columns fit
    // `VECTORS`.
    unsafe { avx512::write(totals, columns, out, stride) }
}
