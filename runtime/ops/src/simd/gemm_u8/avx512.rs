//! AVX-512 with VNNI: four products per lane and instruction, sums modulo 2^32.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the intrinsics have names of their own")
)]

use std::arch::x86_64::*;

use super::{
    Forms, LANES, Row, Sums, Then, Tile, WIDTH,
    pack::GROUP_BYTES,
    requant::{Columns, Finish, MAX_I32},
};

pub(super) const FORMS: Forms = Forms { multiply, finish_i32, finish_f32, finish_u8 };

type Multiply = unsafe fn(&Tile, &Row, &mut Sums);

/// By width in vectors and height in rows, each less 1.
#[rustfmt::skip]
static MULTIPLY: [&[Multiply]; 4] = [
    &[rows::<1, 1>, rows::<2, 1>, rows::<3, 1>, rows::<4, 1>, rows::<5, 1>, rows::<6, 1>,
      rows::<7, 1>, rows::<8, 1>, rows::<9, 1>, rows::<10, 1>, rows::<11, 1>, rows::<12, 1>],
    &[rows::<1, 2>, rows::<2, 2>, rows::<3, 2>, rows::<4, 2>, rows::<5, 2>, rows::<6, 2>,
      rows::<7, 2>, rows::<8, 2>, rows::<9, 2>, rows::<10, 2>, rows::<11, 2>, rows::<12, 2>],
    &[rows::<1, 3>, rows::<2, 3>, rows::<3, 3>, rows::<4, 3>, rows::<5, 3>, rows::<6, 3>,
      rows::<7, 3>, rows::<8, 3>],
    &[rows::<1, 4>, rows::<2, 4>, rows::<3, 4>, rows::<4, 4>, rows::<5, 4>, rows::<6, 4>],
];

/// # Safety
///
/// The machine has what [`super::Isa::Avx512`] says, and `tile` keeps its word.
unsafe fn multiply(tile: &Tile, start: &Row, sums: &mut Sums) {
    // SAFETY: passed on.
    unsafe { MULTIPLY[tile.vectors - 1][tile.rows - 1](tile, start, sums) }
}

/// # Safety
///
/// As of [`multiply`]; the tile is as wide and as high as the parameters say.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn rows<const ROWS: usize, const VECTORS: usize>(tile: &Tile, start: &Row, sums: &mut Sums) {
    let Tile { stride, groups, tail, .. } = *tile;
    let b: [*const i8; VECTORS] = std::array::from_fn(|v| tile.b[v]);
    let (mut a, mut ahead) = (tile.a, tile.ahead);
    let mut totals = [[_mm512_setzero_si512(); VECTORS]; ROWS];
    for v in 0..VECTORS {
        // SAFETY: the array has 4 vectors.
        let start = unsafe { _mm512_loadu_si512(start.as_ptr().add(v * LANES).cast()) };
        for row in &mut totals {
            row[v] = start;
        }
    }
    let mut at = 0;
    for _ in 0..groups {
        let mut codes = [_mm512_setzero_si512(); VECTORS];
        for v in 0..VECTORS {
            // SAFETY: `Tile` says that this group is readable.
            codes[v] = unsafe { _mm512_loadu_si512(b[v].add(at).cast()) };
        }
        _mm_prefetch::<_MM_HINT_T1>(ahead);
        ahead = ahead.wrapping_add(GROUP_BYTES);
        for (i, row) in totals.iter_mut().enumerate() {
            // SAFETY: `Tile` says that the row has these four codes.
            let four = unsafe { a.add(i * stride).cast::<i32>().read_unaligned() };
            let four = _mm512_set1_epi32(four);
            for v in 0..VECTORS {
                row[v] = _mm512_dpbusd_epi32(row[v], four, codes[v]);
            }
        }
        // SAFETY: at most to the end of the row.
        a = unsafe { a.add(4) };
        at += GROUP_BYTES;
    }
    if tail > 0 {
        for (i, row) in totals.iter_mut().enumerate() {
            // SAFETY: `Tile` says that the row has `tail` more codes, and no others are read.
            let four = unsafe { _mm_maskz_loadu_epi8((1 << tail) - 1, a.add(i * stride).cast()) };
            let four = _mm512_broadcastd_epi32(four);
            for v in 0..VECTORS {
                // SAFETY: `Tile` says that the tail's group is readable.
                let codes = unsafe { _mm512_loadu_si512(b[v].add(at).cast()) };
                row[v] = _mm512_dpbusd_epi32(row[v], four, codes);
            }
        }
    }
    for (to, row) in sums.0.iter_mut().zip(&totals) {
        for (v, &total) in row.iter().enumerate() {
            // SAFETY: a row of sums has 4 vectors.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(v * LANES).cast(), total) };
        }
    }
}

/// The mask of those of 16 lanes from `vector` times 16 on that are below `count`.
fn mask(count: usize, vector: usize) -> __mmask16 {
    let left = count.saturating_sub(vector * LANES).min(LANES);
    ((1u32 << left) - 1) as __mmask16
}

/// # Safety
///
/// The machine has what [`super::Isa::Avx512`] says.
#[target_feature(enable = "avx512f")]
unsafe fn finish_i32(sums: &[Row], columns: &Columns, out: Finish<'_, i32>) {
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        let to = &mut to[..columns.count];
        for v in 0..columns.count.div_ceil(LANES) {
            // SAFETY: sums have 4 vectors, and the mask keeps to the elements of `to`.
            unsafe {
                let sum = _mm512_loadu_si512(sums.as_ptr().add(v * LANES).cast());
                let to = to.as_mut_ptr().add(v * LANES);
                _mm512_mask_storeu_epi32(to, mask(columns.count, v), sum);
            }
        }
    }
}

/// # Safety
///
/// The machine has what [`super::Isa::Avx512`] says.
#[target_feature(enable = "avx512f")]
unsafe fn finish_f32(sums: &[Row], columns: &Columns, out: Finish<'_, f32>, then: Then) {
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        let to = &mut to[..columns.count];
        for v in 0..columns.count.div_ceil(LANES) {
            // SAFETY: sums and columns have 4 vectors each.
            let (sum, scale, bias) = unsafe {
                (
                    _mm512_loadu_si512(sums.as_ptr().add(v * LANES).cast()),
                    _mm512_loadu_ps(columns.scales.as_ptr().add(v * LANES)),
                    _mm512_loadu_ps(columns.bias.as_ptr().add(v * LANES)),
                )
            };
            let number = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), bias);
            let number = match then {
                Then::Write => number,
                // The second operand comes through if it is NaN or -0.
                Then::Relu => _mm512_max_ps(_mm512_setzero_ps(), number),
            };
            // SAFETY: the mask keeps to the elements of `to`.
            unsafe {
                let to = to.as_mut_ptr().add(v * LANES);
                _mm512_mask_storeu_ps(to, mask(columns.count, v), number);
            }
        }
    }
}

/// # Safety
///
/// The machine has what [`super::Isa::Avx512`] says.
unsafe fn finish_u8(
    sums: &[Row],
    columns: &Columns,
    out: Finish<'_, u8>,
    zero_point: i16,
    flip: u8,
) {
    // SAFETY: passed on; so many vectors hold the columns.
    unsafe {
        match (columns.count.div_ceil(LANES), columns.shrink) {
            (0 | 1, _) => codes::<1, false>(sums, columns, out, zero_point, flip),
            (2, _) => codes::<2, false>(sums, columns, out, zero_point, flip),
            (3, false) => codes::<3, false>(sums, columns, out, zero_point, flip),
            (3, true) => codes::<3, true>(sums, columns, out, zero_point, flip),
            (_, false) => codes::<4, false>(sums, columns, out, zero_point, flip),
            (_, true) => codes::<4, true>(sums, columns, out, zero_point, flip),
        }
    }
}

/// # Safety
///
/// The machine has what [`super::Isa::Avx512`] says, the columns are at most `16 * VECTORS`, and
/// with `FITS` all scales are below 1.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn codes<const VECTORS: usize, const FITS: bool>(
    sums: &[Row],
    columns: &Columns,
    out: Finish<'_, u8>,
    zero_point: i16,
    flip: u8,
) {
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let (zero_point, flip) = (_mm512_set1_epi16(zero_point), _mm512_set1_epi8(flip.cast_signed()));
    let highest = _mm512_set1_ps(MAX_I32);
    let keep = if columns.count == WIDTH { u64::MAX } else { (1 << columns.count) - 1 };
    let mut scales = [_mm512_setzero_ps(); VECTORS];
    for (v, scale) in scales.iter_mut().enumerate() {
        // SAFETY: there are 4 vectors of scales.
        *scale = unsafe { _mm512_loadu_ps(columns.scales.as_ptr().add(v * LANES)) };
    }
    for (to, sums) in out.to.chunks_mut(out.stride.max(1)).zip(sums) {
        let mut codes = [_mm512_setzero_si512(); 4];
        for v in 0..VECTORS {
            // SAFETY: a row of sums has 4 vectors.
            let sum = unsafe { _mm512_loadu_si512(sums.as_ptr().add(v * LANES).cast()) };
            let code = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scales[v]);
            // NaN comes through as the second operand and, like what is too low, becomes i32::MIN.
            codes[v] = if FITS {
                _mm512_cvtps_epi32(code)
            } else {
                _mm512_cvtps_epi32(_mm512_min_ps(highest, code))
            };
        }
        // Saturating to i16 before the zero point is added changes nothing that fits 8 bits.
        let low = _mm512_adds_epi16(_mm512_packs_epi32(codes[0], codes[1]), zero_point);
        let high = if VECTORS > 2 {
            _mm512_adds_epi16(_mm512_packs_epi32(codes[2], codes[3]), zero_point)
        } else {
            low
        };
        let codes = _mm512_xor_si512(_mm512_packus_epi16(low, high), flip);
        let codes = _mm512_permutexvar_epi32(order, codes);
        let to = &mut to[..columns.count];
        // SAFETY: the mask keeps to the elements of `to`.
        unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), keep, codes) };
    }
}
