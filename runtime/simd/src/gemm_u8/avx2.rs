//! AVX2 micro-kernels of quantized products. Values are widened to 16 bits, so that products do not saturate; sums are
//! modulo 2^32.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the intrinsics have names of their own")
)]

use std::arch::x86_64::*;

use super::{
    Accumulators, Columns, LANES, MAX_I32, MicroKernels, Out, Row, Tile, no_op, pack::LINE, requant,
};

pub(super) static KERNELS: MicroKernels = MicroKernels {
    tiles,
    sum,
    reach,
    configure: no_op,
    release: no_op,
    mr: [8; 4],
    fallback: None,
};

/// Computes the sums of tiles and writes them to `out`.
///
/// # Safety
///
/// The machine supports [`super::Isa::Avx2`], the pointers of `tile` are valid as [`Tile`] requires, and
/// `out` points to its `count * rows` rows of `columns.count` elements, `stride` apart.
#[target_feature(enable = "avx2")]
unsafe fn tiles(tile: &Tile, columns: &Columns, out: Out, stride: usize) {
    let mut sums = Accumulators::new();
    tile.each(out, stride, |tile, out| {
        // SAFETY: the rows and weights of the tile are readable, and `out` is valid for its rows of
        // the columns.
        unsafe {
            columns.begin(tile, &mut sums);
            multiply(tile, &mut sums);
            let sums = &sums.0[..tile.rows];
            match out {
                Out::U8(to, zero_point, flip) => {
                    quantized(sums, columns, to, (zero_point, flip), stride);
                }
                Out::I32(_) | Out::F32(..) => requant::finish(sums, columns, out, stride),
            }
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

/// Adds the products of a tile to its sums.
///
/// # Safety
///
/// As of [`tiles`].
#[target_feature(enable = "avx2")]
unsafe fn multiply(tile: &Tile, sums: &mut Accumulators) {
    for vector in 0..tile.vectors {
        let mut row = 0;
        while row < tile.rows {
            let count = (tile.rows - row).min(4);
            // SAFETY: rows `row..row + count` and the columns of `vector` are within the tile.
            unsafe {
                match count {
                    1 => rows::<1>(tile, row, vector, sums),
                    2 => rows::<2>(tile, row, vector, sums),
                    3 => rows::<3>(tile, row, vector, sums),
                    _ => rows::<4>(tile, row, vector, sums),
                }
            }
            row += count;
        }
    }
}

/// The sums of 16 columns of some rows, eight per vector.
type Totals<const ROWS: usize> = [[__m256i; 2]; ROWS];

/// Computes 16 columns of `ROWS` rows.
///
/// # Safety
///
/// As of [`multiply`]; `ROWS` rows from `row` on are within the tile, and so are the columns.
#[target_feature(enable = "avx2")]
unsafe fn rows<const ROWS: usize>(tile: &Tile, row: usize, vector: usize, sums: &mut Accumulators) {
    let mut b = tile.b.wrapping_add(vector * LINE);
    let mut totals: Totals<ROWS> = [[_mm256_setzero_si256(); 2]; ROWS];
    for tap in 0..tile.taps {
        // SAFETY: the rows and the tap are of the tile.
        let mut a: [*const u8; ROWS] =
            std::array::from_fn(|i| unsafe { tile.tap_ptr(row + i, tap) });
        for _ in 0..tile.groups {
            // SAFETY: `Tile` guarantees that these four values of each row are readable.
            let groups = std::array::from_fn(|i| unsafe { a[i].cast::<i32>().read_unaligned() });
            // SAFETY: `Tile` guarantees that the group of weights is readable.
            unsafe { group(groups, b, &mut totals) };
            a = a.map(|a| a.wrapping_add(4));
            b = b.wrapping_add(tile.vectors * LINE);
        }
        if tile.tail > 0 {
            // SAFETY: `Tile` guarantees that each row has `tail` more values.
            let groups = a.map(|a| i32::from_le_bytes(unsafe { tile.tail(a) }));
            // SAFETY: as above.
            unsafe { group(groups, b, &mut totals) };
            b = b.wrapping_add(tile.vectors * LINE);
        }
    }
    for (i, totals) in totals.iter().enumerate() {
        for (half, &total) in totals.iter().enumerate() {
            let to = sums.0[row + i][vector * LANES + half * 8..][..8].as_mut_ptr();
            // SAFETY: these are eight sums.
            unsafe {
                let previous = _mm256_loadu_si256(to.cast());
                _mm256_storeu_si256(to.cast(), _mm256_add_epi32(total, previous));
            }
        }
    }
}

/// Adds the products of four values of each row and of each column. Even and odd values are widened separately, which
/// takes shifts instead of shuffles.
///
/// # Safety
///
/// Four weights for each of 16 columns are readable at `b`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn group<const ROWS: usize>(groups: [i32; ROWS], b: *const i8, totals: &mut Totals<ROWS>) {
    // SAFETY: the first half of the weights is readable at `b`.
    let low = unsafe { _mm256_loadu_si256(b.cast()) };
    // SAFETY: the second half of the weights is readable `LINE / 2` bytes further.
    let high = unsafe { _mm256_loadu_si256(b.add(LINE / 2).cast()) };
    let even = |weights| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(weights));
    let evens = [even(low), even(high)];
    let odds = [_mm256_srai_epi16::<8>(low), _mm256_srai_epi16::<8>(high)];
    let mask = _mm256_set1_epi16(0xff);
    for i in 0..ROWS {
        let group = _mm256_set1_epi32(groups[i]);
        let (even, odd) = (_mm256_and_si256(group, mask), _mm256_srli_epi16::<8>(group));
        for half in 0..2 {
            let sum = _mm256_add_epi32(totals[i][half], _mm256_madd_epi16(even, evens[half]));
            totals[i][half] = _mm256_add_epi32(sum, _mm256_madd_epi16(odd, odds[half]));
        }
    }
}

/// Scales sums, rounds half to even, adds the zero point, saturates to 8 bits, and inverts the bits in `flip`.
///
/// # Safety
///
/// `to` is valid for the rows of the columns, with a stride of `stride`.
#[target_feature(enable = "avx2")]
unsafe fn quantized(
    sums: &[Row],
    columns: &Columns,
    to: *mut u8,
    (zero_point, flip): (i16, u8),
    stride: usize,
) {
    // The pack instructions work on each 128-bit half, so that the lanes must be reordered.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    // Values are saturated as signed ones, and then converted to unsigned if necessary.
    let zero_point = _mm256_set1_epi16(zero_point - 128);
    let flip = _mm256_set1_epi8((flip ^ 128).cast_signed());
    let max_i32 = _mm256_set1_ps(MAX_I32);
    for (row, sums) in sums.iter().enumerate() {
        let sums_and_scales =
            sums.as_chunks::<32>().0.iter().zip(columns.scales.as_chunks::<32>().0);
        for (vector, (sums, scales)) in sums_and_scales.enumerate().take(columns.count.div_ceil(32))
        {
            let scaled_8 = |eighth: usize| {
                // SAFETY: these are eight of the 32 sums.
                let sum = unsafe { _mm256_loadu_si256(sums[eighth * 8..][..8].as_ptr().cast()) };
                // SAFETY: these are eight of the 32 scales.
                let scale = unsafe { _mm256_loadu_ps(scales[eighth * 8..][..8].as_ptr()) };
                // NaN passes through and becomes i32::MIN, like values that are too low.
                let value = _mm256_min_ps(max_i32, _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale));
                _mm256_cvtps_epi32(value)
            };
            // Saturating to i16 before adding the zero point changes nothing that fits 8 bits.
            let scaled_16 = |eighth| {
                _mm256_adds_epi16(
                    _mm256_packs_epi32(scaled_8(eighth), scaled_8(eighth + 1)),
                    zero_point,
                )
            };
            let values = _mm256_packs_epi16(scaled_16(0), scaled_16(2));
            let values = _mm256_xor_si256(_mm256_permutevar8x32_epi32(values, order), flip);
            let mut bytes = [0; 32];
            // SAFETY: the array has 32 bytes.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), values) };
            let count = (columns.count - vector * 32).min(32);
            // SAFETY: `to` is valid for the columns of this row.
            unsafe {
                to.add(row * stride + vector * 32).copy_from_nonoverlapping(bytes.as_ptr(), count);
            };
        }
    }
}
